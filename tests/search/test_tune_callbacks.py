"""The recorder by itself: Ray's callbacks in, journal lines out."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.trainable.metadata import _TrainingRunMetadata
from synthetic import Clock, make_folder

from tuner.errors import FAILURE_KINDS, JournalError, StorageError
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.planning.validation import ValidatedSpec
from tuner.ray_compat import Call
from tuner.search.driver import Driver
from tuner.search.tune_callbacks import (
    AGAIN_S,
    FIRST_S,
    Recorder,
    Retries,
    Waiting,
    error_of,
    failure_of,
)
from tuner.trial.failures import STORAGE, Failure
from tuner.trial.recycling import WorkerReplacedError
from tuner.trial.trainable import REPORT


class Trials:
    """A recorder over a journal, and what Ray would tell it."""

    def __init__(self, folder, *, call=None):
        self.folder = folder
        self.seen = []
        self.settled = []
        self.is_over = False
        self.leaving = {}
        self.journal = Journal.open(folder, clock=Clock())
        spec = ValidatedSpec.model_validate(dict(Results(folder).spec))
        spec = spec.replace(scheduler={"max_t": 3}, objective={"metric": "val_loss"})
        self.driver = driver = Driver(spec, ExperimentFolder(folder), self.journal)
        driver.observers = [self.seen.append]
        driver.restore(slots=1)
        driver.begin([], fits=lambda: 1)
        self.stopped, self.history = driver.scheduler.stopped, driver.history
        driver.is_over = lambda: self.is_over
        driver.steering.leaving = self.leaving.get
        driver.queue.retry = lambda trial: self.settled.append((trial.trial_id, True))
        driver.queue.give_up = lambda *failed: self.settled.append((*failed, False))
        self.recorder = Recorder(driver, call_of=lambda error: call, report_timeout_s=60)

    def start(self, number):
        self.recorder.on_trial_start(0, [], trial(number))

    def result(self, number, epoch, *saved, val_loss=None, done=False, worker=None, own_end=False):
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

    def events(self):
        self.journal.sync()
        names = ("event", "trial_id", "epoch", "status", "error")
        return [tuple(e[n] for n in names if n in e) for e in read(self.folder)]


def saved(epoch):
    return {"epoch": epoch, "path": f"trials/00000/checkpoints/{epoch}/s", "sha256": "0" * 64}


def trial(number, error_file=None, worker=None):
    config = {"trial_id": f"{number:05}", "config": {"lr": 0.1}}
    kept = _TrainingRunMetadata()
    kept.update_metric("loss", 0.5)
    state = SimpleNamespace(ray_actor=worker)
    return SimpleNamespace(
        config=config, pickled_error_file=error_file, run_metadata=kept, temporary_state=state
    )


class Worker:
    """An actor that answers `save_now`."""

    def __init__(self, answer, monkeypatch):
        self.answer, self.asked = answer, 0
        self.save_now = SimpleNamespace(remote=lambda: self)
        monkeypatch.setattr(ray, "get", self.get)

    def get(self, asked, timeout):
        assert (asked, timeout) == (self, 60)
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def trials(tmp_path):
    return Trials(make_folder(tmp_path / "digits"))


def test_what_tune_keeps_of_a_trials_metrics_is_dropped_at_its_end(trials):
    one = trial(0)
    trials.recorder.on_trial_start(1, [], one)
    assert one.run_metadata.metric_analysis
    trials.recorder.on_trial_complete(1, [], one)
    assert not one.run_metadata.metric_analysis
    assert not one.run_metadata.metric_n_steps


def test_a_trial_is_told_in_order(trials):
    trials.start(0)
    trials.result(0, 1, {"epoch": 1, "path": "trials/00000/checkpoints/1/s", "sha256": "0" * 64})
    trials.complete(0)
    assert trials.events() == [
        ("trial_started", "00000"),
        ("result", "00000", 1),
        ("checkpoint", "00000", 1),
        ("trial_ended", "00000", "completed"),
    ]
    assert trials.seen == list(read(trials.folder))


def test_a_start_tells_the_origin_and_the_seed_where_they_are_known(trials):
    own = trial(0)
    own.config |= {"origin": "grid", "seed": 0}
    trials.recorder.on_trial_start(0, [], own)
    trials.start(1)
    known, unknown = trials.seen
    assert (known["origin"], known["seed"]) == ("grid", 0)
    assert set(unknown) == {"event", "time", "trial_id", "config"}


def test_what_the_scheduler_ended_is_stopped(trials):
    trials.start(0)
    trials.stopped.add("00000")
    trials.complete(0)
    assert trials.events()[-1] == ("trial_ended", "00000", "stopped")


def test_a_trial_that_came_to_its_own_end_is_journaled_as_done(trials):
    for number, epochs in enumerate((3, 3, 2, 2)):
        trials.start(number)
        for epoch in range(1, epochs + 1):
            trials.result(number, epoch, own_end=(number, epoch) == (1, 3))
    trials.stopped.add("00003")
    for number in range(4):
        trials.complete(number)
    said = [(e["event"], e["trial_id"]) for e in trials.seen if e.get("done")]
    assert said == [
        ("result", "00001"),  # in its last epoch
        ("trial_ended", "00001"),
        ("trial_ended", "00002"),  # before its length: a function that has returned
    ]


def test_what_the_scheduler_expected_is_journaled_with_the_end(trials):
    for number in (0, 1):
        trials.start(number)
    forecasts = {"00000": {"3": {"end": 0.5, "chance": 0.01}}}
    trials.driver.scheduler.forecasts = lambda trial_id: forecasts.get(trial_id, {})
    trials.stopped.add("00000")
    trials.complete(0)
    trials.complete(1)
    told, other = trials.seen[-2:]
    assert (
        told["forecasts"]
        == trials.history.trials["00000"].forecasts
        == {"3": {"end": 0.5, "chance": 0.01}}
    )
    assert "forecasts" not in other


def test_a_reported_failure_is_no_result(trials):
    trials.start(0)
    trials.fail(0)
    trials.stopped.add("00000")
    trials.complete(0)
    error = {"kind": "nan", "message": "m"}
    assert trials.events()[1:] == [("trial_ended", "00000", "failed", error)]


def test_a_disk_that_is_full_is_no_fault_of_the_trial(trials):
    trials.start(0)
    trials.start(1)
    trials.fail(0, kind=STORAGE)
    trials.complete(0)
    assert (type(trials.driver.error), str(trials.driver.error)) == (StorageError, "m")
    trials.result(1, 1)
    trials.driver.interrupt_running()
    assert [e[0] for e in trials.events()] == ["trial_started", "trial_started"]
    assert trials.settled == []


def test_an_epoch_that_is_run_again_is_not_journaled_again_but_its_checkpoint_is(tmp_path):
    folder = make_folder(tmp_path / "digits")
    before = Trials(folder)
    before.start(0)
    for epoch in (1, 2, 3):
        before.result(0, epoch)
    before.driver.interrupt_running()
    before.journal.close()
    trials = Trials(folder)
    trials.start(0)
    saved = {"epoch": 3, "path": "trials/00000/checkpoints/3/s", "sha256": "0" * 64}
    trials.result(0, 3, saved, val_loss=0.25)
    trials.result(0, 4, {**saved, "epoch": 4})
    kinds = ["trial_started", "checkpoint", "result", "checkpoint"]
    assert [e[0] for e in trials.events()[5:]] == kinds
    assert trials.events()[-2] == ("result", "00000", 4)
    again, first = [e for e in read(folder) if e["event"] == "checkpoint"]
    assert again["metrics"] == {"val_loss": 0.25}
    assert "metrics" not in first


def test_a_checkpoint_may_come_with_a_later_report(trials):
    trials.start(0)
    trials.result(0, 1)
    trials.result(0, 2, saved(1))
    trials.result(0, 3, saved(2), saved(3))
    assert [e[:3:2] for e in trials.events()[1:]] == [
        ("result", 1),
        ("result", 2),
        ("checkpoint", 1),
        ("result", 3),
        ("checkpoint", 2),
        ("checkpoint", 3),
    ]


@pytest.mark.parametrize("ends", ["stopped", "over"])
def test_a_trial_that_ends_with_its_report_saves_what_it_has_not(trials, monkeypatch, ends):
    worker = Worker({"checkpoints": [saved(1), saved(2)]}, monkeypatch)
    trials.start(0)
    trials.result(0, 1, worker=worker)
    assert worker.asked == 0  # it goes on
    trials.is_over = ends == "over"
    trials.result(0, 2, done=ends == "stopped", worker=worker)
    trials.complete(0)
    assert worker.asked == 1
    kinds = ["trial_started", "result", "result", "checkpoint", "checkpoint", "trial_ended"]
    assert [e[0] for e in trials.events()] == kinds


def test_a_worker_that_dies_as_its_trial_ends_does_not_fail_it(trials, monkeypatch, caplog):
    trials.start(0)
    trials.result(0, 1, done=True, worker=Worker(RayActorError(), monkeypatch))
    trials.complete(0)
    assert trials.events()[-1] == ("trial_ended", "00000", "completed")
    assert "trial 00000: its last checkpoint is not written" in caplog.text


def test_what_cannot_be_saved_at_a_trials_end_ends_as_any_failure_does(trials, monkeypatch):
    failure = {"kind": STORAGE, "message": "cannot write it"}
    trials.start(0)
    trials.result(0, 1, done=True, worker=Worker({"failure": failure}, monkeypatch))
    trials.complete(0)
    assert isinstance(trials.driver.error, StorageError)


def test_what_was_saved_before_a_failure_is_journaled(trials):
    trials.start(0)
    trials.result(0, 1)
    trials.fail(0, checkpoints=[saved(1)])
    trials.complete(0)
    assert [e[0] for e in trials.events()[2:]] == ["checkpoint", "trial_ended"]


def test_a_trial_that_dies_before_it_starts_is_started_tried_again_and_failed(trials):
    for _ in range(2):
        trials.recorder.on_trial_error(0, [], trial(2))
    assert [e[:2] for e in trials.events()] == [
        ("trial_started", "00002"),
        ("trial_ended", "00002"),
    ]
    assert trials.events()[1][3]["kind"] == "crash"
    assert trials.settled == [("00002", True), ("00002", "crash", False)]


def test_dying_in_an_epoch_that_is_run_again_is_not_dying_twice_in_the_same(trials):
    trials.start(0)
    for epoch in (1, 2, 3):
        trials.result(0, epoch)
    trials.recorder.on_trial_error(0, [], trial(0))  # in its 4th epoch
    again = trial(0)
    again.config["epoch"] = 1  # from there it goes on
    trials.recorder.on_trial_error(0, [], again)  # in its 2nd
    assert trials.settled == [("00000", True)] * 2


def test_a_trial_that_goes_on_after_a_crash_is_one_trial_in_the_journal(trials):
    trials.start(0)
    trials.result(0, 1)
    trials.recorder.on_trial_error(0, [], trial(0))
    trials.start(0)
    trials.result(0, 2)
    trials.complete(0)
    names = [e[0] for e in trials.events()]
    assert names == ["trial_started", "result", "result", "trial_ended"]
    assert trials.settled == [("00000", True)]


def test_a_trial_whose_process_was_not_to_be_used_again_begins_in_another(trials, tmp_path):
    (tmp_path / "error.pkl").write_bytes(pickle.dumps(WorkerReplacedError("it has kept 600 MiB")))
    for _ in range(9):  # and as often as it takes: it is not the trial's fault
        trials.recorder.on_trial_error(0, [], trial(0, str(tmp_path / "error.pkl")))
    assert trials.settled == [("00000", True)] * 9
    trials.start(0)
    assert [name for name, *_ in trials.events()] == ["trial_started"]


def test_the_cause_of_a_death_is_read_from_where_ray_wrote_it(trials, tmp_path):
    (tmp_path / "error.pkl").write_bytes(pickle.dumps(OutOfMemoryError("1 GB used")))
    trials.recorder.on_trial_error(0, [], trial(2, str(tmp_path / "error.pkl")))
    assert trials.events()[1][3] == {"kind": "oom", "message": "1 GB used"}


def asked(method, ago_s, **more):
    return Call(method, time.monotonic() - ago_s, **more)


def test_a_process_that_dies_after_long_silence_has_hung(tmp_path):
    trials = Trials(make_folder(tmp_path / "digits"), call=asked("train", 61))
    trials.recorder.on_trial_error(0, [], trial(0))
    told = {"kind": "timeout", "message": "no report in 60 s; its log shows where it hung"}
    assert trials.events()[1][3] == told
    assert trials.settled == [("00000", "timeout", False)]


def test_what_still_runs_at_the_end_is_interrupted(trials):
    for number in (1, 0, 2):
        trials.start(number)
    trials.complete(1)
    trials.driver.interrupt_running()
    assert trials.events()[-2:] == [
        ("trial_ended", "00000", "interrupted"),
        ("trial_ended", "00002", "interrupted"),
    ]


def test_a_journal_that_cannot_be_written_is_kept_as_the_error_and_nothing_is_shown(
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


def test_the_history_is_as_new_as_the_event_that_an_observer_sees(trials):
    seen = []
    trials.driver.observers = [
        lambda event: seen.append((event["event"], trials.history.trials["00000"].status))
    ]
    trials.start(0)
    trials.complete(0)
    assert seen == [("trial_started", "running"), ("trial_ended", "completed")]


def test_a_trial_that_leaves_as_asked_ends_as_it_says(trials):
    leaving = {"00000": ("stopped", "17-a"), "00001": ("interrupted", "17-b")}
    trials.leaving |= leaving
    for number in range(2):
        trials.start(number)
        trials.result(number, 1)
        trials.complete(number)
    ended = trials.history.trials.values()
    assert [(trial.status, trial.ended_by) for trial in ended] == list(leaving.values())
    assert trials.settled == [("00001", True)]  # which goes on later


@pytest.mark.parametrize("runs_on", [False, True])
def test_unfinished_lets_a_whole_trial_go_on_whose_code_runs_on(trials, runs_on):
    trials.start(0)
    trials.result(0, 3)
    trials.stopped.add("00000")
    whole = trials.history.trials["00000"]
    assert list(trials.driver.unfinished(runs_on=runs_on)) == ([whole] if runs_on else [])
    assert whole.status == ("running" if runs_on else "completed")


@pytest.fixture
def waiting(caplog):
    """Lets a search be in a state until a moment; returns what has been said by then."""
    now, lines, asked = [0.0], ["too little", "all is held"], []

    def why():
        asked.append(now[0])
        return lines

    callback = Waiting(why, clock=lambda: now[0])

    def until(moment, *states):
        trials = [SimpleNamespace(status=state) for state in states]
        while now[0] < moment:
            now[0] += 1.5
            callback.on_step_end(0, trials)
        return [record.getMessage() for record in caplog.records]

    return SimpleNamespace(until=until, lines=lines, asked=asked)


def test_it_is_said_after_a_while_and_then_rarely(waiting):
    assert waiting.until(FIRST_S - 2, "PENDING", "TERMINATED") == []
    said = waiting.until(FIRST_S, "PENDING", "TERMINATED")
    assert said == [f"no trial has run for 1m 00s: {line}" for line in waiting.lines]
    assert waiting.until(AGAIN_S, "PENDING") == said
    again = waiting.until(FIRST_S + AGAIN_S, "PENDING")[len(said) :]
    assert again == [f"no trial has run for 31m 00s: {line}" for line in waiting.lines]


@pytest.mark.parametrize("states", [("PENDING", "RUNNING"), ("TERMINATED",), ()])
def test_nothing_is_said_while_one_runs_or_none_waits(waiting, states):
    assert waiting.until(10 * FIRST_S, *states) == []
    assert waiting.asked == []
    assert waiting.until(10.9 * FIRST_S, "PENDING") == []  # counted from the last that ran
    assert waiting.until(11.1 * FIRST_S, "PENDING") != []


def test_what_cannot_be_explained_is_asked_again(waiting):
    waiting.lines.clear()
    assert waiting.until(2.9 * FIRST_S, "PENDING") == []
    assert len(waiting.asked) == 2
    waiting.lines.append("now it can")
    assert waiting.until(3 * FIRST_S, "PENDING") == ["no trial has run for 3m 00s: now it can"]


IN_LOG = "; its log shows where it hung"
BY_DRIVER = ", and its process did not end itself: the driver did"


def call_of(method: str, ago_s: float, ended: bool = False) -> Call:
    return Call(method, time.monotonic() - ago_s, ended=ended)


def failure(error: BaseException | None = None, call: Call | None = None) -> Failure | None:
    return failure_of(error, call, report_timeout_s=60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("train", 61), f"no report in 60 s{IN_LOG}"),
        (("start", 61), f"did not start in 60 s{IN_LOG}"),
        (("reset", 61), f"did not start in 60 s{IN_LOG}"),
        (("train", 91, True), f"no report in 60 s{BY_DRIVER}"),
        (("start", 91, True), f"did not start in 60 s{BY_DRIVER}"),
    ],
)
def test_a_process_that_dies_after_long_silence_has_hung_by_its_failure(
    call: Any, message: str
) -> None:
    assert failure(call=call_of(*call)) == Failure("timeout", message)


def test_a_process_that_dies_sooner_has_crashed() -> None:
    for call in (None, call_of("train", 5)):
        found = failure(call=call)
        assert found is not None
        assert found.kind == "crash"


def test_a_known_cause_of_a_death_counts_more_than_the_silence() -> None:
    assert failure(OutOfMemoryError("1 GB used"), call_of("train", 61)) == Failure(
        "oom", "1 GB used"
    )


def test_a_worker_that_ends_between_two_trials_is_no_fault_of_the_second() -> None:
    assert failure(WorkerReplacedError("it has kept 600 MiB")) is None
    assert failure(call=call_of("reset", 91, True)) is None


@pytest.mark.parametrize(
    ("content", "found"),
    [(pickle.dumps(ValueError("x")), "ValueError('x')"), (b"torn", "None"), (b"N.", "None")],
)
def test_what_ray_wrote_of_a_death_is_read_if_it_can_be(
    tmp_path: Path, content: bytes, found: str
) -> None:
    file = tmp_path / "error.pkl"
    file.write_bytes(content)
    of: Any = SimpleNamespace(pickled_error_file=str(file))
    assert repr(error_of(of)) == found
    nothing: Any = SimpleNamespace(pickled_error_file=None)
    assert error_of(nothing) is None


CRASH = Failure("crash", "gone")


def test_a_crash_is_tried_again_twice() -> None:
    retries = Retries()
    assert [retries.grants("0", epoch, CRASH) for epoch in (1, 2, 3)] == [True, True, False]
    assert retries.grants("1", 1, CRASH)


def test_a_crash_that_repeats_in_its_epoch_is_not_tried_a_third_time() -> None:
    retries = Retries()
    assert [retries.grants("0", 4, CRASH) for _ in range(2)] == [True, False]


def test_a_lost_node_is_not_the_trials_fault() -> None:
    retries = Retries()
    assert all(retries.grants("0", 1, Failure("node_lost", "gone")) for _ in range(9))
    assert retries.grants("0", 1, CRASH)


@pytest.mark.parametrize("kind", sorted(set(FAILURE_KINDS) - {"crash", "node_lost"}))
def test_what_would_end_the_same_is_not_tried_again(kind: str) -> None:
    assert not Retries().grants("0", 1, Failure(kind, "why"))


def test_a_device_that_is_no_longer_usable_is_tried_once_more() -> None:
    retries = Retries()
    poisoned = Failure("exception", "device-side assert", poisoned=True)
    assert [retries.grants("0", epoch, poisoned) for epoch in (1, 5)] == [True, False]
