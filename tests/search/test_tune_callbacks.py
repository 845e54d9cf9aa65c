"""Ray's callbacks in, journal lines out; why a trial failed, and whether it is tried again."""

import errno
import os
import pickle
import time
from types import SimpleNamespace

import pytest
import ray
from ray.exceptions import RayActorError
from ray.tune.trainable.metadata import _TrainingRunMetadata
from synthetic import Clock, make_folder

from tuner.errors import FAILURE_KINDS, JournalError, JournalLostError, StorageError
from tuner.experiment import files
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.ray_compat import Call
from tuner.search.driver import Driver
from tuner.search.preparation import Plan
from tuner.search.tune_callbacks import Recorder, Retries, classify_failure, load_error
from tuner.trial.failures import STORAGE, Failure
from tuner.trial.trainable import REPORT
from tuner.trial.trial_process import WorkerReplacedError


class Trials:
    """A recorder over a journal, and the calls that Ray makes to it."""

    def __init__(self, folder, *, call=None):
        self.folder = folder
        self.seen = []
        self.settled = []
        self.leaving = {}
        self.is_over = False
        self.journal = Journal.open(folder, clock=Clock())
        changes = {"objective": {"metric": "val_loss"}, "timeouts": {"report_s": 60}}
        changed = Results(folder).spec.replace(scheduler={"max_t": 3}, **changes)
        self.driver = driver = Driver(
            Plan(changed), ExperimentFolder(folder), self.journal
        )
        driver.restore()
        driver.record_search_start(resumed=False)
        driver.observers = [self.seen.append]
        driver.begin([], fits=lambda: 1)
        self.stopped = driver.scheduler.stopped
        self.history = driver.history
        driver.is_over = lambda: self.is_over
        driver.steering.pop_requested_end = self.leaving.get
        driver.queue.retry = lambda trial: self.settled.append((trial.trial_id, True))
        driver.queue.report_failure = lambda *failed: self.settled.append(
            (*failed, False)
        )
        self.recorder = Recorder(driver, call_of=lambda error: call)

    def start(self, *numbers):
        for number in numbers:
            self.recorder.on_trial_start(0, [], trial(number))

    def result(
        self,
        number,
        epoch,
        *saved,
        val_loss=None,
        done=False,
        worker=None,
        own_end=False,
    ):
        metrics = {"val_loss": val_loss or 1 / epoch}
        report = {"metrics": metrics, "checkpoints": saved, "is_saved": worker is None}
        report |= {"done": True} if own_end else {}
        result = {"training_iteration": epoch, REPORT: report, "done": done}
        self.recorder.on_trial_result(0, [], trial(number, worker=worker), result)

    def fail(self, number, kind="nan", checkpoints=()):
        report = {"failure": {"kind": kind, "message": "m"}, "checkpoints": checkpoints}
        self.recorder.on_trial_result(0, [], trial(number), {REPORT: report})

    def complete(self, number):
        self.recorder.on_trial_complete(0, [], trial(number))

    def die(self, number, error_file=None, **config):
        self.recorder.on_trial_error(0, [], trial(number, error_file, **config))

    def events(self):
        """What is journaled of trials."""
        self.journal.sync()
        names = ("event", "trial_id", "epoch", "status", "error")
        of_trials = [e for e in read(self.folder) if "trial_id" in e]
        return [tuple(e[n] for n in names if n in e) for e in of_trials]

    def kinds(self):
        return [event[0] for event in self.events()]


def saved(epoch):
    return {
        "epoch": epoch,
        "path": f"trials/00000/checkpoints/{epoch}/s",
        "sha256": "0" * 64,
    }


def trial(number, error_file=None, worker=None, **config):
    kept = _TrainingRunMetadata()
    kept.update_metric("loss", 0.5)
    return SimpleNamespace(
        config={"trial_id": f"{number:05}", "config": {"lr": 0.1}, **config},
        pickled_error_file=error_file,
        run_metadata=kept,
        temporary_state=SimpleNamespace(ray_actor=worker),
    )


class Worker:
    """An actor that answers `save_now`."""

    def __init__(self, answer, monkeypatch):
        self.answer = answer
        self.calls = 0
        self.save_now = SimpleNamespace(remote=lambda: self)
        monkeypatch.setattr(ray, "get", self.get)

    def get(self, calls, timeout):
        assert (calls, timeout) == (self, 60)
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def trials(tmp_path):
    return Trials(make_folder(tmp_path / "digits"))


def test_recorder_journals_a_trial_at_its_own_end_as_done(trials):
    for number, epochs in enumerate((3, 3, 2, 2)):
        trials.start(number)
        for epoch in range(1, epochs + 1):
            trials.result(number, epoch, own_end=(number, epoch) == (1, 3))
    trials.stopped.add("00003")
    for number in range(4):
        trials.complete(number)
    assert [(e["event"], e["trial_id"]) for e in trials.seen if e.get("done")] == [
        ("result", "00001"),  # in its last epoch
        ("trial_ended", "00001"),
        ("trial_ended", "00002"),  # before its length: a function that has returned
    ]
    assert trials.history.trials["00003"].status == "stopped"


def test_recorder_shows_the_scheduler_a_report_that_ends_its_trial(trials, monkeypatch):
    shown = []

    def stops(trial_id, epoch, metrics):
        shown.append((trial_id, epoch, metrics["val_loss"]))
        trials.stopped.add(trial_id)

    monkeypatch.setattr(trials.driver.scheduler, "record", stops)
    trials.start(0, 1)
    trials.stopped.add("00001")  # by a report that Tune has shown
    for number in range(2):
        trials.result(number, 3, val_loss=0.5, done=True)
        trials.complete(number)
    assert shown == [("00000", 3, 0.5)]
    assert [trial.status for trial in trials.history.trials.values()] == [
        "completed",
        "stopped",
    ]


def test_recorder_journals_a_reported_failure_after_what_was_saved(trials):
    trials.start(0)
    trials.result(0, 1)
    trials.fail(0, checkpoints=[saved(1)])
    trials.stopped.add("00000")
    trials.complete(0)
    error = {"kind": "nan", "message": "m"}
    assert trials.events()[2:] == [
        ("checkpoint", "00000", 1),
        ("trial_ended", "00000", "failed", error),
    ]


def test_recorder_with_a_full_disk_fails_the_search_not_the_trial(trials):
    trials.start(0, 1)
    trials.fail(0, kind=STORAGE)
    trials.complete(0)
    assert (type(trials.driver.error), str(trials.driver.error)) == (StorageError, "m")
    trials.result(1, 1)
    trials.driver.interrupt("running")
    assert trials.kinds() == ["trial_started", "trial_started"]
    assert trials.settled == []


def test_recorder_journals_only_the_checkpoint_of_an_epoch_that_is_run_again(tmp_path):
    folder = make_folder(tmp_path / "digits")
    before = Trials(folder)
    before.start(0)
    for epoch in (1, 2, 3):
        before.result(0, epoch)
    before.driver.interrupt("running")
    before.journal.close()
    trials = Trials(folder)
    trials.start(0)
    trials.result(0, 3, saved(3), val_loss=0.25)
    trials.result(0, 4, saved(4))
    assert trials.kinds()[5:] == ["trial_started", "checkpoint", "result", "checkpoint"]
    again, first = [e for e in read(folder) if e["event"] == "checkpoint"]
    assert again["metrics"] == {"val_loss": 0.25}
    assert "metrics" not in first


@pytest.mark.parametrize("ends", ["stopped", "over"])
def test_recorder_lets_a_trial_that_ends_save_its_checkpoint(trials, monkeypatch, ends):
    worker = Worker({"checkpoints": [saved(1), saved(2)]}, monkeypatch)
    trials.start(0)
    trials.result(0, 1, worker=worker)
    assert worker.calls == 0  # it goes on
    trials.is_over = ends == "over"
    trials.result(0, 2, done=ends == "stopped", worker=worker)
    trials.complete(0)
    assert worker.calls == 1
    kinds = [
        "trial_started",
        "result",
        "result",
        "checkpoint",
        "checkpoint",
        "trial_ended",
    ]
    assert trials.kinds() == kinds


def test_recorder_completes_a_trial_whose_worker_dies_as_it_saves(
    trials, monkeypatch, caplog
):
    trials.start(0)
    trials.result(0, 1, done=True, worker=Worker(RayActorError(), monkeypatch))
    trials.complete(0)
    assert trials.events()[-1] == ("trial_ended", "00000", "completed")
    assert "trial 00000: its last checkpoint is not written" in caplog.text


def test_recorder_fails_the_search_if_a_last_checkpoint_cannot_be_stored(
    trials, monkeypatch
):
    failure = {"kind": STORAGE, "message": "cannot write it"}
    trials.start(0)
    trials.result(0, 1, done=True, worker=Worker({"failure": failure}, monkeypatch))
    trials.complete(0)
    assert isinstance(trials.driver.error, StorageError)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("is_dead", [True, False])
def test_recorder_of_a_full_disk_fails_the_search_and_no_trial(
    trials, monkeypatch, number, is_dead
):
    def fail(path):
        raise OSError(number, os.strerror(number))

    trials.start(0)
    monkeypatch.setattr(files, "sync", fail)
    if is_dead:
        trials.die(0)
    else:
        trials.fail(0, kind="exception")
        trials.complete(0)
    assert isinstance(trials.driver.error, StorageError)
    assert os.strerror(number) in str(trials.driver.error)
    assert trials.kinds() == ["trial_started"]  # so that a resume goes on with it
    assert not list(trials.folder.glob("*.partial"))


def test_recorder_starts_and_retries_a_trial_that_dies_before_it_starts(trials):
    before = set(trials.folder.iterdir())
    for _ in range(2):
        trials.die(2)
    assert set(trials.folder.iterdir()) == before  # the disk was tried, and is sound
    started, ended = trials.events()
    assert started == ("trial_started", "00002")
    assert (ended[0], ended[3]["kind"]) == ("trial_ended", "crash")
    assert trials.settled == [("00002", True), ("00002", "crash", False)]


@pytest.mark.parametrize("is_dead", [True, False])
def test_recorder_of_a_renamed_folder_keeps_its_error(trials, tmp_path, is_dead):
    (tmp_path / "error.pkl").write_bytes(
        pickle.dumps(WorkerReplacedError("it has kept 600 MiB"))
    )
    trials.folder.rename(tmp_path / "renamed")
    if is_dead:
        trials.die(0, str(tmp_path / "error.pkl"))
    else:
        trials.start(0)
        trials.result(0, 1)
        trials.complete(0)
    assert isinstance(trials.driver.error, JournalLostError)
    assert trials.settled == []


def test_recorder_retries_a_trial_whose_worker_is_replaced_any_number_of_times(
    trials, tmp_path
):
    (tmp_path / "error.pkl").write_bytes(
        pickle.dumps(WorkerReplacedError("it has kept 600 MiB"))
    )
    for _ in range(9):
        trials.die(0, str(tmp_path / "error.pkl"))
    assert trials.settled == [("00000", True)] * 9
    trials.start(0)
    assert trials.kinds() == ["trial_started"]


def test_recorder_ends_trials_as_users_request(trials):
    leaving = {"00000": ("stopped", "17-a"), "00001": ("interrupted", "17-b")}
    trials.leaving |= leaving
    for number in range(2):
        trials.start(number)
        trials.result(number, 1)
        trials.complete(number)
    ended = trials.history.trials.values()
    assert [(trial.status, trial.ended_by) for trial in ended] == list(leaving.values())
    assert trials.settled == [("00001", True)]  # it goes on later


def test_emit_with_a_failed_journal_keeps_the_error_and_notifies_nobody(
    trials, monkeypatch
):
    def full(*args, **fields):
        raise JournalError("no space left")

    trials.start(0)
    monkeypatch.setattr(trials.journal, "append", full)
    trials.result(0, 1)
    monkeypatch.undo()
    trials.result(0, 2)
    assert isinstance(trials.driver.error, JournalError)
    assert [e["event"] for e in trials.seen] == ["trial_started"]
    assert len(trials.events()) == 1


@pytest.mark.parametrize("runs_on", [False, True])
def test_unfinished_keeps_a_whole_trial_whose_code_runs_on(trials, runs_on):
    trials.start(0)
    trials.result(0, 3)
    trials.stopped.add("00000")
    whole = trials.history.trials["00000"]
    assert list(trials.driver.iterate_unfinished(runs_on=runs_on)) == (
        [whole] if runs_on else []
    )
    assert whole.status == ("running" if runs_on else "completed")


def call_of(method, ago_s, ended=False):
    return Call(method, time.monotonic() - ago_s, ended=ended)


def failure(error=None, call=None):
    return classify_failure(error, call, report_timeout_s=60)


@pytest.mark.parametrize(
    "call",
    [
        ("train", 61),
        ("start", 61),
        ("reset", 61),
        ("train", 91, True),
        ("start", 91, True),
    ],
)
def test_failure_of_a_process_that_dies_after_long_silence_is_a_timeout(snapshot, call):
    snapshot.compare_value(failure(call=call_of(*call)))


@pytest.mark.parametrize("call", [(), ("train", 5)])
def test_failure_of_a_process_that_dies_sooner_is_a_crash(call):
    assert failure(call=call_of(*call) if call else None).kind == "crash"


def test_failure_of_a_worker_that_ends_between_two_trials_is_none():
    assert failure(WorkerReplacedError("it has kept 600 MiB")) is None
    assert failure(call=call_of("reset", 91, True)) is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (pickle.dumps(ValueError("x")), "ValueError('x')"),
        (b"torn", "None"),
        (b"N.", "None"),
    ],
)
def test_error_of_reads_what_ray_wrote_if_it_can(tmp_path, content, error):
    file = tmp_path / "error.pkl"
    file.write_bytes(content)
    assert repr(load_error(trial(0, str(file)))) == error
    assert load_error(trial(0)) is None


CRASH = Failure("crash", "gone")
POISONED = Failure("exception", "device-side assert", poisoned=True)


@pytest.mark.parametrize(
    ("failure", "epochs", "granted"),
    [
        (CRASH, (1, 2, 3), [True, True, False]),
        (CRASH, (4, 4), [True, False]),
        (POISONED, (1, 5), [True, False]),
        (Failure("node_lost", "gone"), (1,) * 9, [True] * 9),
        *(
            (Failure(k, "?"), (1,), [False])
            for k in FAILURE_KINDS
            if k not in ("crash", "node_lost")
        ),
    ],
)
def test_retries_grant_another_try_by_kind_and_epoch(failure, epochs, granted):
    retries = Retries()
    assert [retries.should_retry("0", epoch, failure) for epoch in epochs] == granted
    assert retries.should_retry("1", 1, CRASH)  # each trial by itself
