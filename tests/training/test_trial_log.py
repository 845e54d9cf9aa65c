"""A trial's log.txt."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.training.trial_log import TrialLog


def test_it_takes_both_streams_and_gives_them_back(tmp_path):
    before = sys.stdout, sys.stderr
    with TrialLog(tmp_path / "a" / "log.txt"):
        print("out")
        print("err", file=sys.stderr)
    assert (sys.stdout, sys.stderr) == before
    assert (tmp_path / "a" / "log.txt").read_text() == "out\nerr\n"


def test_it_gives_them_back_after_an_exception(tmp_path):
    before = sys.stdout, sys.stderr
    with pytest.raises(ValueError, match="x"), TrialLog(tmp_path / "log.txt"):
        raise ValueError("x")
    assert (sys.stdout, sys.stderr) == before


def test_what_is_written_is_there_at_once_and_a_second_run_appends(tmp_path):
    path = tmp_path / "log.txt"
    for text in ("one", "two"):
        with TrialLog(path) as log:
            log.write(text)
            assert path.read_text().endswith(text)
    assert path.read_text() == "onetwo"


def test_the_middle_is_cut_out_of_a_long_one(tmp_path):
    with TrialLog(tmp_path / "log.txt", limit=1000) as log:
        log.write("begin\n")
        for number in range(1000):
            log.write(f"line {number}\n")
        log.write("end")
    text = (tmp_path / "log.txt").read_text()
    assert len(text) <= 1100
    assert text.startswith("begin\nline 0\n")
    assert text.endswith("line 999\nend")
    assert "cut here" in text


@given(st.lists(st.text(max_size=200), max_size=30))
def test_its_size_is_bounded_whatever_is_written(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("log") / "log.txt"
    with TrialLog(path, limit=256) as log:
        for text in texts:
            assert log.write(text) == len(text)
    longest = max((len(text.encode("utf-8", "replace")) for text in texts), default=0)
    assert path.stat().st_size <= 256 + longest + 60


def test_half_a_surrogate_is_written_all_the_same(tmp_path):
    with TrialLog(tmp_path / "log.txt") as log:
        log.write("a\ud800b")
    assert (tmp_path / "log.txt").read_text() == "a?b"


def test_a_crash_leaves_its_traceback(tmp_path):
    code = (
        "import ctypes, pathlib, sys; from tuner.training.trial_log import TrialLog\n"
        "def breaks(): ctypes.string_at(0)\n"
        "TrialLog(pathlib.Path(sys.argv[1])).__enter__(); breaks()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log.txt")], check=False)
    assert done.returncode != 0
    text = (tmp_path / "log.txt").read_text()
    assert "Segmentation fault" in text
    assert "in breaks" in text
