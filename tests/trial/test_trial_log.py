"""A trial's log.txt."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tuner.errors import StorageError
from tuner.trial import trial_log
from tuner.trial.log_writer import LIMIT
from tuner.trial.trial_log import TrialLog

MIB = 1 << 20


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "trials" / "0" / "log.txt"
    made.parent.mkdir(parents=True)
    return made


@pytest.fixture(autouse=True)
def own_writer(monkeypatch):
    """A writer that is not there yet, marked in its environment so that it is known as ours."""
    monkeypatch.setenv("TUNER_TEST", uuid.uuid4().hex)
    trial_log.leave_writer()


@pytest.fixture(autouse=True)
def streams_come_back():
    before = sys.stdout, sys.stderr, os.fstat(1), os.fstat(2)
    yield
    assert (sys.stdout, sys.stderr) == before[:2]
    assert all(map(os.path.samestat, (os.fstat(1), os.fstat(2)), before[2:]))


def test_everything_that_is_written_is_in_it_in_order(path):
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


def test_the_streams_come_back_after_an_exception_and_when_they_were_closed(path):
    with pytest.raises(ValueError, match="x"), TrialLog(path.parent, path.name):
        raise ValueError("x")
    with TrialLog(path.parent, path.name):
        sys.stdout.close()
        os.close(2)


def test_each_trial_of_a_process_has_its_own_file_and_a_second_run_appends(tmp_path):
    for number, text in enumerate(("one", "two", "three")):
        with TrialLog(tmp_path, str(number % 2)) as log:
            print(text)
            os.write(log.fileno(), b".")
    assert (tmp_path / "0").read_text() == "one\n.three\n."
    assert (tmp_path / "1").read_text() == "two\n."


def test_a_child_that_outlives_its_trial_goes_on_in_the_trials_own_log(tmp_path):
    with TrialLog(tmp_path, "0"):
        child = subprocess.Popen(["sh", "-c", "read line; echo late $line"], stdin=subprocess.PIPE)
    with TrialLog(tmp_path, "1"):
        child.communicate(b"one\n")
    assert child.returncode == 0
    eventually(lambda: (tmp_path / "0").read_text() == "late one\n")
    assert (tmp_path / "1").read_text() == ""


@pytest.mark.parametrize("way", ["print", "write", "child"])
def test_a_flood_is_cut(path, way):
    line = "x" * 99
    with TrialLog(path.parent, path.name):
        print("begin")
        if way == "print":
            for _ in range(MIB // 10):
                print(line)
        elif way == "write":
            for _ in range(100):
                os.write(1, b"y" * MIB)
        else:
            subprocess.run(["head", "-c", str(100 * MIB), "/dev/zero"], check=True)
        print("end")
        assert path.stat().st_size < 2 * LIMIT
    text = path.read_text()
    assert len(text) <= LIMIT
    assert text.startswith("begin\n")
    assert text.endswith("end\n")
    assert "bytes left out ...]" in text


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("ctypes.string_at(0)", "Segmentation fault"),
        ("os.abort()", "Aborted"),
        ("os._exit(3)", "before"),
        ("os.kill(os.getpid(), 9)", "before"),
    ],
)
def test_a_process_that_dies_leaves_what_it_wrote_and_its_traceback(path, end, said):
    code = (
        "import ctypes, os, pathlib, sys; from tuner.trial.trial_log import TrialLog\n"
        f"def breaks(): {end}\n"
        "TrialLog(pathlib.Path(sys.argv[1]), sys.argv[2]).__enter__(); print('before'); breaks()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path.parent), path.name], check=False)
    assert done.returncode != 0
    eventually(lambda: said in path.read_text())
    assert path.read_text().startswith("before\n")
    if said != "before":
        eventually(lambda: "in breaks" in path.read_text())


def test_without_its_writer_the_trial_goes_on_and_the_next_gets_another(tmp_path):
    with TrialLog(tmp_path, "0"):
        print("one")
        kill_writers()
    with TrialLog(tmp_path, "1"):
        print("two")
        for writer in writers():
            os.kill(writer, signal.SIGTERM)  # which it does not heed
    assert (tmp_path / "1").read_text() == "two\n"
    kill_writers()
    with TrialLog(tmp_path, "2"):
        print("three")
    assert (tmp_path / "2").read_text() == "three\n"


def test_a_writer_that_does_not_answer_holds_no_trial_up(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_log, "_PATIENCE_S", 0.5)
    trial_log.leave_writer()
    before = writers()
    with TrialLog(tmp_path, "0"):
        [stuck] = writers() - before
        os.kill(stuck, signal.SIGSTOP)  # as one whose storage hangs
        print("one")
    with TrialLog(tmp_path, "1"):
        print("two")
    os.kill(stuck, signal.SIGCONT)
    assert (tmp_path / "1").read_text() == "two\n"
    eventually(lambda: (tmp_path / "0").read_text() == "one\n")
    trial_log.leave_writer()


def test_it_ends_with_its_worker(path):
    code = (
        "import pathlib, sys; from tuner.trial.trial_log import TrialLog\n"
        "log = TrialLog(pathlib.Path(sys.argv[1]), sys.argv[2])\n"
        "log.__enter__(); sys.__stdin__.read()"
    )
    before = writers()
    command = [sys.executable, "-c", code, str(path.parent), path.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        eventually(lambda: writers() > before)
        worker.kill()
    eventually(lambda: writers() <= before)


def test_a_log_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write .*log\.txt: File exists"):
        TrialLog(tmp_path, "file/log.txt").__enter__()


def writers():
    """The pids of the log writers that this process and its children have started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            ours = f"TUNER_TEST={os.environ['TUNER_TEST']}".encode()
            if b"log_writer.py" in command and ours in (entry / "environ").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def kill_writers():
    for writer in writers():
        os.kill(writer, signal.SIGKILL)


def eventually(holds, patience_s=60):
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
