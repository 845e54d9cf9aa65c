"""What comes through to a terminal: text, and of escape sequences none but our own."""

import io
import subprocess
import sys

import pytest
from rich.live import Live
from rich.text import Text

from tuner import streams
from tuner.streams import lasting

CLIPBOARD = "\x1b]52;c;ZWNobyBoaQ==\x07"
HOSTILE = f"a{CLIPBOARD}b\x9bc\x7fd\u202ee\ud800f\rg"


def test_text_is_all_that_comes_through(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    streams.guard()
    guarded = sys.stdout
    streams.guard()
    assert sys.stdout is guarded
    print(f"{HOSTILE}\tä ✓", file=sys.stdout, flush=True)
    sys.stdout.writelines(["one\n", "\x1btwo\n"])
    assert written.getvalue() == "a ]52;c;ZWNobyBoaQ== b c d e f g\tä ✓\none\n two\n"


def test_nothing_gets_past_it_as_bytes():
    guarded = streams.TextOnly(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert not hasattr(guarded, "buffer")
    assert guarded.encoding == "ascii"


@pytest.mark.parametrize("guarded", [False, True])
def test_a_console_has_colours_of_its_own_alone(guarded):
    written = io.StringIO()
    stream = streams.TextOnly(written) if guarded else written
    console = streams.console(stream, force_terminal=True, color_system="standard", width=80)
    console.print(Text(f"{CLIPBOARD}[bold]", style="red"))
    assert written.getvalue() == "\x1b[31m ]52;c;ZWNobyBoaQ==[bold]\x1b[0m\n"  # rich drops the bell
    with Live(Text(HOSTILE), console=console):
        pass
    assert CLIPBOARD[:3] not in written.getvalue()
    assert "\x1b[?25l" in written.getvalue()  # the cursor, hidden by the view itself


WRITES = """
import contextlib, os, sys
from tuner.streams import lasting
reader, writer = os.pipe()
os.dup2(writer, 2)
os.close(writer)
with lasting() if sys.argv[1] == "lasting" else contextlib.nullcontext():
    print("one", file=sys.stderr)
    print(os.read(reader, 100), flush=True)
    os.close(reader)
    print("two", file=sys.stderr)
    sys.stderr.write("three")
    sys.stderr.flush()
print("done")
"""


@pytest.mark.parametrize(("how", "code"), [("lasting", 0), ("as it is", 1)])
def test_what_it_does_not_take_is_no_error(how, code):
    command = [sys.executable, "-c", WRITES, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("b'one\\n'\n")
    assert (done.stdout.endswith("done\n"), done.returncode != 0) == (code == 0, code != 0)


def test_another_stream_in_its_place_is_left(capsys):
    replaced = sys.stderr
    with lasting():
        assert sys.stderr is replaced
        print("said", file=sys.stderr)
    assert capsys.readouterr().err == "said\n"
