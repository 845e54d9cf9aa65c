"""A stderr whose reader has gone."""

import subprocess
import sys

import pytest

from tuner.stderr import lasting

WRITES = """
import contextlib, os, sys
from tuner.stderr import lasting
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
