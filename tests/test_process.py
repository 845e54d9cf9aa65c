"""Signals, text streams and threads of a process."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading

import pytest
from rich.live import Live
from rich.text import Text

from tuner import process
from tuner.errors import InterruptedSearchError
from tuner.process import ignore_stderr_errors


def test_running_ends_thread_on_exit():
    seen = []

    def watch(over):
        seen.append(threading.current_thread())
        over.wait()
        seen.append("over")

    with pytest.raises(KeyError), process.run_in_thread(watch):
        raise KeyError
    thread, over = seen
    assert over == "over"
    assert not thread.is_alive()


def test_running_accepts_finished_work():
    with process.run_in_thread(lambda over: None):
        pass


ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDING)
def test_handled_signal_runs_handler_until_exit(number):
    seen = []
    before = signal.getsignal(number)
    with process.catch_signals(lambda number, frame: seen.append(number)):
        send(number)
        send(number)
    assert seen == [number, number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ENDING)
def test_interrupting_keeps_ignored_signal(number, monkeypatch):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with process.raise_interrupts(), process.defer_signals():
            send(number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_interrupting_in_other_thread_changes_no_handler():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with process.raise_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("number", ENDING)
def test_interrupting_raises_for_first_signal_only(snapshot, number):
    cleaned = []

    def work():
        with process.raise_interrupts():
            try:
                send(number)
            finally:
                send(number)
                cleaned.append(True)

    with snapshot.raises(InterruptedSearchError) as error:
        work()
    assert error.value.exit_code == 128 + number
    assert cleaned


def test_interrupting_error_passes_except_exception():
    with (
        pytest.raises(InterruptedSearchError),
        process.raise_interrupts(),
        contextlib.suppress(Exception),
    ):
        send(signal.SIGTERM)


def test_interrupting_after_no_more_ignores_signal():
    with process.raise_interrupts() as no_more:
        no_more()
        send(signal.SIGTERM)


def test_held_back_signal_raises_at_end(snapshot):
    reached = []

    def work():
        with process.raise_interrupts(), process.defer_signals():
            send(signal.SIGTERM)
            reached.append(True)
            raise RuntimeError("of what could not be left")

    with snapshot.raises(InterruptedSearchError):
        work()
    assert reached


CLIPBOARD = "\x1b]52;c;ZWNobyBoaQ==\x07"
HOSTILE = f"a{CLIPBOARD}b\x9bc\x7fd\u202ee\ud800f\rg"


def test_guard_removes_control_characters():
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(io.StringIO()):
        process.wrap_streams()
        guarded = sys.stdout
        process.wrap_streams()
        assert sys.stdout is guarded
        print(f"{HOSTILE}\tä ✓", file=sys.stdout, flush=True)
        sys.stdout.writelines(["one\n", "\x1btwo\n"])
    assert written.getvalue() == "a ]52;c;ZWNobyBoaQ== b c d e f g\tä ✓\none\n two\n"


def test_text_only_has_no_byte_buffer():
    guarded = process.TextOnly(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert not hasattr(guarded, "buffer")
    assert guarded.encoding == "ascii"


@pytest.mark.parametrize("guarded", [False, True])
def test_console_passes_only_its_escape_sequences(guarded):
    written = io.StringIO()
    stream = process.TextOnly(written) if guarded else written
    console = process.create_console(stream, force_terminal=True, color_system="standard", width=80)
    console.print(Text(f"{CLIPBOARD}[bold]", style="red"))
    assert written.getvalue() == "\x1b[31m ]52;c;ZWNobyBoaQ==[bold]\x1b[0m\n"  # rich drops the bell
    with Live(Text(HOSTILE), console=console):
        pass
    assert CLIPBOARD[:3] not in written.getvalue()
    assert "\x1b[?25l" in written.getvalue()  # the cursor, hidden by the view itself


WRITES = """
import contextlib, os, sys
from tuner.process import ignore_stderr_errors
reader, writer = os.pipe()
os.dup2(writer, 2)
os.close(writer)
with ignore_stderr_errors() if sys.argv[1] == "lasting" else contextlib.nullcontext():
    print("one", file=sys.stderr)
    print(os.read(reader, 100), flush=True)
    os.close(reader)
    print("two", file=sys.stderr)
    sys.stderr.write("three")
    sys.stderr.flush()
print("done")
"""


@pytest.mark.parametrize(("how", "code"), [("lasting", 0), ("as it is", 1)])
def test_lasting_ignores_closed_stderr(how, code):
    command = [sys.executable, "-c", WRITES, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("b'one\\n'\n")
    assert (done.stdout.endswith("done\n"), done.returncode != 0) == (code == 0, code != 0)


def test_lasting_keeps_replaced_stream(capsys):
    replaced = sys.stderr
    with ignore_stderr_errors():
        assert sys.stderr is replaced
        print("said", file=sys.stderr)
    assert capsys.readouterr().err == "said\n"
