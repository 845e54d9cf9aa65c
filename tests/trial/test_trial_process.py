"""A trial's process: its folder, its log, its errors, and whether it trains another trial."""

import ctypes
import gc
import importlib
import os
import signal
import subprocess
import sys
import weakref
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_worker import Counter, context

from tuner.errors import StorageError
from tuner.experiment.journal import Journal
from tuner.experiment.remote.objects import Objects
from tuner.places import ROOT
from tuner.trial import torch_compat, trial_process
from tuner.trial.context import Assignment
from tuner.trial.directories import START_DIR, TRIAL_DIR, start_dir, trial_dir
from tuner.trial.failures import Failure
from tuner.trial.trial_process import (
    BOUND_MIB,
    GAP,
    LIMIT,
    Leftovers,
    TrialLog,
    TrialProcess,
    clip_log,
    find_reuse_fault,
    read_latest_output,
)

SMALL = 40_000


class Stays(Counter):
    stays_in_start_dir = True


def test_begin_goes_to_the_trials_folder_and_end_comes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path))
    for trial_id in ("00000", "00001"):
        assert process.begin(Assignment(trial_id, {})).__name__ == "Counter"
        assert Path.cwd() == trial_dir() == tmp_path / "trials" / trial_id / "files"
        assert start_dir() == tmp_path
        os.environ["LEFT_BY_A_TRIAL"] = trial_id
        if trial_id == "00000":
            Path("out").touch()
        os.chdir("/")  # as a trial may
        assert process.end() is None
        assert Path.cwd() == trial_dir() == start_dir() == tmp_path
        assert not {START_DIR, TRIAL_DIR, "LEFT_BY_A_TRIAL"} & os.environ.keys()
    assert list(tmp_path.glob("trials/*/files")) == [tmp_path / "trials/00000/files"]


@pytest.mark.parametrize("is_driven", [True, False])
def test_end_uploads_files_where_no_driver_does(tmp_path, monkeypatch, is_driven):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ROOT, str(tmp_path / "copies"))
    url = f"memory://{uuid4().hex}/runs/digits"
    here = context(tmp_path, location=url)
    here.folder.mkdir(parents=True)
    with Journal.open(here.folder) if is_driven else nullcontext():
        process = TrialProcess(here)
        process.begin(Assignment("00000", {}))
        Path(".model").touch()
        process.end()
    files = [] if is_driven else ["trials/00000/files/.model"]
    assert Objects(url).list_names() == files


def test_begin_in_a_folder_that_cannot_be_made_raises_storage_error(
    snapshot, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trials/00000").mkdir(parents=True)
    (tmp_path / "trials/00000/files").write_text("in the way")
    with snapshot.raises(StorageError):
        TrialProcess(context(tmp_path)).begin(Assignment("00000", {}))
    assert Path.cwd() == tmp_path


def test_begin_leaves_a_trainable_that_stays_in_the_start_directory(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path, trainable="test_trial_process:Stays"))
    process.begin(Assignment("00000", {}))
    assert Path.cwd() == tmp_path
    assert trial_dir() == tmp_path / "trials/00000/files"
    process.end()


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (None, None),
        (Failure("nan", ""), None),
        (Failure("bad_report", ""), None),
        (Failure("oom", ""), "a trial failed in it (oom)"),
        (Failure("exception", "", poisoned=True), "its device cannot be used any more"),
    ],
)
def test_why_not_after_names_the_reason(failure, reason):
    assert find_reuse_fault(failure) == reason


def test_leftovers_measure_growth_since_the_first_trial():
    held = iter([300.0, 290.0, 350.0, 300 + BOUND_MIB, 900.0])
    leftovers = Leftovers(lambda: next(held))
    cleared = [(leftovers.clear(), leftovers.grown_mib) for _ in range(5)]
    spent = "it has kept 600 MiB of earlier trials"
    assert cleared == [
        (None, 0),
        (None, 0),
        (None, 50),
        (None, BOUND_MIB),
        (spent, 600),
    ]


def test_clear_restores_the_environment(monkeypatch):
    monkeypatch.setenv("OF_ANOTHER", "before")
    before = dict(os.environ)
    leftovers = Leftovers()
    leftovers.begin()
    os.environ["OF_THE_TRIAL"] = "1"
    os.environ["OF_ANOTHER"] = "changed"
    del os.environ["PATH"]
    leftovers.clear()
    assert dict(os.environ) == before


def fail():
    raise RuntimeError("CUDA error: device-side assert triggered")


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        (lambda: None, "a trial left 1 process running"),
        (fail, "its device cannot be used any more"),
    ],
)
def test_clear_ends_a_child_left_running(monkeypatch, release, reason):
    monkeypatch.setattr(trial_process, "release_memory", release)
    leftovers = Leftovers()
    leftovers.begin()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert leftovers.clear() == reason
    assert child.wait() == -signal.SIGKILL


def test_networks_compile_once_per_trial():
    compiled = []
    counts = []
    config = importlib.import_module("torch._dynamo.config")

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    wrapped = partial(torch.compile, backend=backend)
    with patch.object(torch, "compile", wrapped), config.patch(recompile_limit=2):
        leftovers = Leftovers()
        for widths in ((2, 3, 4), (4,)):
            leftovers.begin()
            for width in widths:
                network = torch_compat.Compiled(
                    torch.nn.Sequential(torch.nn.Linear(1, width))
                )
                network(torch.ones(4, 1))
                network(torch.ones(3, 1))  # of another size: as it is
            leftovers.clear()
            counts.append((len(compiled), config.recompile_limit))
    assert counts == [(3, 2), (4, 2)]


def test_clear_freezes_the_garbage_of_the_first_trial():
    gc.unfreeze()
    leftovers = Leftovers()
    leftovers.clear()
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < 1000
    cycle = [torch.ones(1)]
    cycle.append(cycle)
    tensor = weakref.ref(cycle[0])
    del cycle
    leftovers.clear()
    assert tensor() is None
    gc.unfreeze()


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "trials/0/log.txt"
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


def open_files():
    """What each descriptor of this process leads to; other threads open and close some."""
    links = Path("/proc/self/fd").iterdir()
    return [os.readlink(link) for link in links if link.is_symlink()]


def test_trial_log_appends_to_its_own_file_and_leaves_no_descriptor_open(tmp_path):
    stdout = os.readlink("/proc/self/fd/1")
    before = open_files().count(stdout)
    for number, text in enumerate(("one", "two", "three")):
        with TrialLog(tmp_path, str(number % 2)) as log:
            print(text)
            os.write(log.fileno(), b".")
    assert (tmp_path / "0").read_text() == "one\n.three\n."
    assert (tmp_path / "1").read_text() == "two\n."
    assert open_files().count(stdout) == before
    assert not any(name.startswith(str(tmp_path)) for name in open_files())


def test_child_that_outlives_its_trial_keeps_the_trials_log(tmp_path):
    with TrialLog(tmp_path, "0"):
        child = subprocess.Popen(
            ["sh", "-c", "read line; echo late $line"], stdin=subprocess.PIPE
        )
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
    ],
)
def test_process_that_dies_leaves_its_output_and_its_traceback(path, end, expected):
    code = (
        "import ctypes, os, pathlib, sys; from tuner.trial.trial_process import TrialLog\n"
        f"def breaks(): {end}\n"
        "TrialLog(pathlib.Path(sys.argv[1]), sys.argv[2]).__enter__(); print('before'); breaks()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path.parent), path.name], check=False
    )
    assert done.returncode != 0
    text = path.read_text()
    assert text.startswith("before\n")
    assert expected in text
    assert ("in breaks" in text) == (expected != "before")


@pytest.mark.parametrize("name", ["trials", "trials/00001", "trials/00001/log.txt"])
def test_trial_log_follows_no_link(tmp_path, name):
    target = tmp_path / "target"
    link = tmp_path / "x" / name
    target.mkdir() if name != "trials/00001/log.txt" else target.write_text("kept")
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(StorageError, match="is a symbolic link"):
        TrialLog(tmp_path / "x", "trials/00001/log.txt").__enter__()
    assert (
        target.read_text() == "kept" if target.is_file() else not list(target.iterdir())
    )


@given(st.lists(st.binary(max_size=3 * SMALL) | st.just(b"x" * 3 * SMALL), max_size=12))
def test_cut_bounds_the_size_and_keeps_both_ends(tmp_path_factory, chunks):
    file = tmp_path_factory.mktemp("log") / "log.txt"
    file.touch()
    written = b"".join(chunks)
    for chunk in chunks:
        with file.open("ab") as stream:
            stream.write(chunk)
        clip_log(file, SMALL)
    text = file.read_bytes()
    assert len(text) <= SMALL
    if len(written) <= SMALL:
        assert text == written
    else:
        assert text == written[: SMALL // 2] + GAP + text[SMALL // 2 + len(GAP) :]
        assert written.endswith(text[SMALL // 2 + len(GAP) :])


def test_latest_output_is_the_last_line_of_the_newest_log(tmp_path):
    assert read_latest_output(tmp_path, ["00000", "00001"], since=0) is None
    for number, text in enumerate(["waiting\n", "old\n\r 640 of 1,970 \x1b \n\n"]):
        log = tmp_path / f"trials/0000{number}/log.txt"
        log.parent.mkdir(parents=True)
        log.write_text(text)
        os.utime(log, (number, number))
    ids = ["00000", "00001", "00002"]
    assert read_latest_output(tmp_path, ids, since=1) == "trial 00001: 640 of 1,970"
    assert read_latest_output(tmp_path, ["00000"], since=0) == "trial 00000: waiting"
    assert read_latest_output(tmp_path, ids, since=2) is None
