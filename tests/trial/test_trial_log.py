"""A trial's log.txt: complete, in order, bounded, and of no other trial."""

import ctypes
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import StorageError
from tuner.trial.trial_log import GAP, LIMIT, TrialLog, cut

SMALL = 40_000


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "trials" / "0" / "log.txt"
    made.parent.mkdir(parents=True)
    return made


@pytest.fixture(autouse=True)
def streams_come_back():
    before = sys.stdout, sys.stderr, os.fstat(1), os.fstat(2)
    yield
    assert (sys.stdout, sys.stderr) == before[:2]
    assert all(map(os.path.samestat, (os.fstat(1), os.fstat(2)), before[2:]))


def test_trial_log_keeps_all_output_in_order(path):
    with TrialLog(path.parent, path.name):
        print("python")
        print("half a line,", end=" ")
        print("and half a surrogate \ud800", file=sys.stderr)
        sys.stdout.flush()
        os.write(1, b"descriptor\n")
        subprocess.run(["sh", "-c", "echo child; echo its error >&2"], check=True)
        ctypes.CDLL(None).puts(b"c")
    assert path.read_text().splitlines() == [
        *("python", "and half a surrogate \\ud800"),
        *("half a line, descriptor", "child", "its error", "c"),
    ]


def test_trial_log_appends_to_its_own_file_and_leaves_no_descriptor_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for number, text in enumerate(("one", "two", "three")):
        with TrialLog(tmp_path, str(number % 2)) as log:
            print(text)
            os.write(log.fileno(), b".")
    assert (tmp_path / "0").read_text() == "one\n.three\n."
    assert (tmp_path / "1").read_text() == "two\n."
    assert len(os.listdir("/proc/self/fd")) == before


def test_child_that_outlives_its_trial_keeps_the_trials_log(tmp_path):
    with TrialLog(tmp_path, "0"):
        child = subprocess.Popen(["sh", "-c", "read line; echo late $line"], stdin=subprocess.PIPE)
    with TrialLog(tmp_path, "1"):
        child.communicate(b"one\n")
    assert child.returncode == 0
    assert (tmp_path / "0").read_text() == "late one\n"
    assert (tmp_path / "1").read_text() == ""


def test_cap_cuts_the_log_while_its_trial_writes(path):
    with TrialLog(path.parent, path.name) as log:
        print("begin")
        for _ in range(3):
            subprocess.run(["head", "-c", str(10 * LIMIT), "/dev/zero"], check=True)
            log.cap()
            assert path.stat().st_size <= LIMIT
        print("end")
    text = path.read_bytes()
    assert (text[:6], text[-4:], text.count(GAP)) == (b"begin\n", b"end\n", 1)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("ctypes.string_at(0)", "Segmentation fault"),
        ("os.abort()", "Aborted"),
        ("os._exit(3)", "before"),
        ("os.kill(os.getpid(), 9)", "before"),
    ],
)
def test_process_that_dies_leaves_its_output_and_its_traceback(path, end, expected):
    code = (
        "import ctypes, os, pathlib, sys; from tuner.trial.trial_log import TrialLog\n"
        f"def breaks(): {end}\n"
        "TrialLog(pathlib.Path(sys.argv[1]), sys.argv[2]).__enter__(); print('before'); breaks()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path.parent), path.name], check=False)
    assert done.returncode != 0
    text = path.read_text()
    assert text.startswith("before\n")
    assert expected in text
    assert ("in breaks" in text) == (expected != "before")


def test_trial_log_that_cannot_be_opened_raises_storage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write .*log\.txt: File exists"):
        TrialLog(tmp_path, "file/log.txt").__enter__()


@given(st.lists(st.binary(max_size=3 * SMALL) | st.just(b"x" * 3 * SMALL), max_size=12))
def test_cut_bounds_the_size_and_keeps_both_ends(tmp_path_factory, chunks):
    file = tmp_path_factory.mktemp("log") / "log.txt"
    file.touch()
    written = b"".join(chunks)
    for chunk in chunks:
        with file.open("ab") as stream:
            stream.write(chunk)
        cut(file, SMALL)
    text = file.read_bytes()
    assert len(text) <= SMALL
    if len(written) <= SMALL:
        assert text == written
    else:
        assert text == written[: SMALL // 2] + GAP + text[SMALL // 2 + len(GAP) :]
        assert written.endswith(text[SMALL // 2 + len(GAP) :])
