import contextlib
import io
import subprocess
import sys

import pytest
from rich.live import Live
from rich.text import Text

from tuner.streams import TextOnly, create_console, ignore_stderr_errors, wrap_streams

CLIPBOARD = "\x1b]52;c;ZWNobyBoaQ==\x07"
HOSTILE = f"a{CLIPBOARD}b\x9bc\x7fd\u202ee\ud800f\rg"


def test_guard_removes_control_characters():
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(io.StringIO()):
        wrap_streams()
        guarded = sys.stdout
        wrap_streams()
        assert sys.stdout is guarded
        print(f"{HOSTILE}\tä ✓", file=sys.stdout, flush=True)
        sys.stdout.writelines(["one\n", "\x1btwo\n"])
    assert written.getvalue() == "a ]52;c;ZWNobyBoaQ== b c d e f g\tä ✓\none\n two\n"


def test_text_only_has_no_byte_buffer():
    guarded = TextOnly(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert not hasattr(guarded, "buffer")
    assert guarded.encoding == "ascii"


@pytest.mark.parametrize("guarded", [False, True])
def test_console_passes_only_its_escape_sequences(guarded):
    written = io.StringIO()
    stream = TextOnly(written) if guarded else written
    console = create_console(
        stream, force_terminal=True, color_system="standard", width=80
    )
    console.print(Text(f"{CLIPBOARD}[bold]", style="red"))
    # Rich drops the bell
    assert written.getvalue() == "\x1b[31m ]52;c;ZWNobyBoaQ==[bold]\x1b[0m\n"
    with Live(Text(HOSTILE), console=console):
        pass
    assert CLIPBOARD[:3] not in written.getvalue()
    assert "\x1b[?25l" in written.getvalue()  # the cursor, hidden by the view itself


WRITES = """
import contextlib, os, sys
from tuner.streams import ignore_stderr_errors
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
    assert (done.stdout.endswith("done\n"), done.returncode != 0) == (
        code == 0,
        code != 0,
    )


def test_lasting_keeps_replaced_stream(capsys):
    replaced = sys.stderr
    with ignore_stderr_errors():
        assert sys.stderr is replaced
        print("said", file=sys.stderr)
    assert capsys.readouterr().err == "said\n"
