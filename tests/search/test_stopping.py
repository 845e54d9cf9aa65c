"""A signal or a spent budget ends a search, and signals are given back."""

import os
import signal

import pytest

from tuner.errors import InterruptedSearchError
from tuner.experiment.events import FINISH, PATIENCE, SAME_FAILURE, TARGET, TIME_BUDGET
from tuner.experiment.history import History
from tuner.search import stopping
from tuner.search.stopping import EarlyEnd, StopRequest, ending, why_early
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective, Stop
from tuner.spec.space.parsing import parse_space


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_end(number):
    with StopRequest(None) as ends:
        assert not ends.requested
        os.kill(os.getpid(), number)
        assert (ends.requested, ends.signal) == (True, number)
    assert InterruptedSearchError("m", ends.signal).exit_code == 128 + number


def test_of_several_signals_the_first_counts_and_a_second_ctrl_c_is_not_held_back():
    with StopRequest(None) as ends:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert ends.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert ends.signal == signal.SIGTERM


def test_time_runs_out(monkeypatch):
    now = 100.0
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now)
    ends = StopRequest(60)
    assert not ends.requested
    now = 160.0
    assert (ends.requested, ends.signal) == (True, None)


class Told:
    """What a search with such rules says after each event; a second passes before each."""

    def __init__(self, mode="min", space=None, **rules):
        objective = Objective(metric="m", mode=mode)
        self.objective, self.history, self.now = objective, History(objective), 0.0
        space = parse_space(space or {"x": "uniform(0, 1)"})
        self.early_end = EarlyEnd(Stop(**rules), objective, self.history, space)
        self.after("experiment_started", resumed=False, owner={})

    def after(self, event, **fields):
        self.now += 1
        record = {"event": event, "time": self.now, **fields}
        self.history.apply(record)
        self.early_end(record)
        return self.early_end.reason(self.now)

    def resume(self, *, retry_failed):
        self.early_end = EarlyEnd(Stop(), self.objective, self.history, {})
        self.after("experiment_started", resumed=True, owner={})
        for trial in self.history.of_status("failed") if retry_failed else ():
            self.after("trial_ended", trial_id=trial.trial_id, status="interrupted")
        return self.early_end.reason(self.now)

    def trial(self, number, *values, status="completed"):
        trial_id = f"{number:05}"
        self.after("trial_started", trial_id=trial_id, config={})
        for epoch, value in enumerate(values, 1):
            self.after("result", trial_id=trial_id, epoch=epoch, metrics={"m": value})
        return self.after("trial_ended", trial_id=trial_id, status=status)

    def failed(self, number, message, *values, kind="exception", config=None):
        trial_id, error = f"{number:05}", {"kind": kind, "message": message}
        self.after("trial_started", trial_id=trial_id, config=config or {"x": number / 99})
        for epoch, value in enumerate(values, 1):
            self.after("result", trial_id=trial_id, epoch=epoch, metrics={"m": value})
        return self.after("trial_ended", trial_id=trial_id, status="failed", error=error)


@pytest.mark.parametrize(("mode", "values"), [("min", (0.5, 0.2)), ("max", (0.1, 0.2))])
def test_a_target_that_is_reached_is_the_end(mode, values):
    told = Told(mode, target=0.2)
    assert told.trial(0, values[0]) is None
    assert told.trial(1, values[1]) == TARGET


def test_so_many_trials_in_a_row_without_a_better_one_are_the_end():
    told = Told(patience_trials=2)
    assert told.trial(0, 0.5) is None
    assert told.trial(1, 0.6, status="stopped") is None
    assert told.trial(2, 0.4) is None  # a better one: counted anew
    assert told.trial(3, 0.5) is None
    assert told.trial(4, 0.5, status="stopped") == PATIENCE


def test_so_long_without_a_better_one_is_the_end():
    told = Told(patience_s=10)
    told.trial(0, 0.5, 0.4)
    assert told.early_end.reason(told.now + 8) is None
    assert told.early_end.reason(told.now + 10) == PATIENCE


def test_in_a_pause_patience_does_not_run_out_and_is_counted_anew_from_its_end():
    told = Told(patience_s=10)
    told.trial(0, 0.5)
    told.after("control", id="1", control={"verb": "pause"})
    assert told.early_end.reason(told.now + 99) is None
    told.now += 99
    assert told.after("control", id="2", control={"verb": "go-on"}) is None
    assert told.early_end.reason(told.now + 9) is None
    assert told.early_end.reason(told.now + 10) == PATIENCE


def test_without_rules_nothing_is_the_end():
    told = Told()
    assert [told.trial(number, 0.5) for number in range(3)] == [None] * 3
    assert told.early_end.reason(1e9) is None


def test_why_a_search_ends_early():
    stop = StopRequest(None)
    assert (stop.requested, stop.why_early) == (False, None)
    stop.reason = TARGET
    assert (stop.requested, stop.why_early) == (True, TARGET)
    assert StopRequest(1e-9).why_early == TIME_BUDGET


@pytest.mark.parametrize(("begun_after", "never_started"), [(0, 2), (1, 1), (2, None)])
def test_configs_that_were_asked_for_are_still_to_come_however_few_samples_there_are_to_be(
    begun_after, never_started
):
    told = Told()
    told.trial(0, 0.5)
    told.trial(1, 0.4)
    told.after("control", id="1", control={"verb": "num-samples", "num_samples": 1})
    for number in (2, 3):
        told.after("control", id=f"{number}", control={"verb": "try", "config": {"x": number}})
    told.after("control", id="4", control={"verb": "finish"})
    for number in range(2, 2 + begun_after):
        told.after("trial_started", trial_id=f"{number:05}", config={}, origin="asked")
        told.after("trial_ended", trial_id=f"{number:05}", status="completed")
    spec = ExperimentSpec(
        name="s", search={"space": {"x": "uniform(0, 9)"}}, objective=told.objective, num_samples=1
    )
    ending = {"reason": FINISH, "never_started": never_started} if never_started else {}
    assert why_early(spec, told.history, StopRequest(None)) == ending


@pytest.mark.parametrize("kind", ["exception", "bad_report", "crash", "timeout"])
def test_early_end_after_three_first_failures_of_one_cause_ends_the_search(kind):
    told = Told()
    messages = ("no lss; at net.py:12, <Net 0x7f01>", "no lss; at net.py:12, <Net 0x7f9b>")
    assert told.failed(0, messages[0], kind=kind) is None
    assert told.failed(1, messages[1], kind=kind) is None
    assert told.failed(2, messages[0], kind=kind) == SAME_FAILURE


def test_early_end_after_failures_of_different_causes_goes_on():
    told = Told()
    assert {told.failed(n, text) for n, text in enumerate(("a", "b", "a", "b"))} == {None}
    assert told.failed(4, "a", kind="crash") is None
    assert told.failed(5, "a") == SAME_FAILURE


@pytest.mark.parametrize("kind", ["nan", "oom"])
def test_early_end_after_failures_that_configs_may_cause_waits_for_ten(kind):
    told = Told()
    assert {told.failed(n, "allocate 2 GiB of 9", kind=kind) for n in range(9)} == {None}
    assert told.failed(9, "allocate 2 GiB of 7", kind=kind) == SAME_FAILURE


def test_early_end_after_too_little_memory_for_different_sizes_goes_on():
    told = Told()
    messages = [f"OutOfMemoryError: Tried to allocate {n}.00 GiB" for n in range(20)]
    assert {told.failed(n, text, kind="oom") for n, text in enumerate(messages)} == {None}


def test_early_end_after_errors_of_configs_with_one_choice_waits_for_another_choice():
    told = Told(space={"x": "uniform(0, 1)", "net": "choice(['a', 'b'])", "seed": 1})
    for number in range(4):
        config = {"x": number / 9, "net": "a", "seed": 1}
        assert told.failed(number, "no net a", config=config) is None
    assert told.failed(4, "no net a", config={"x": 1, "net": "b", "seed": 1}) == SAME_FAILURE


def test_early_end_after_lost_nodes_goes_on():
    told = Told()
    assert {told.failed(number, "gone", kind="node_lost") for number in range(20)} == {None}


def test_early_end_with_a_usable_report_goes_on():
    told = Told()
    told.failed(0, "a")
    told.after("trial_started", trial_id="00009", config={})
    told.after("result", trial_id="00009", epoch=1, metrics={"m": 0.5})
    assert {told.failed(number, "a") for number in range(1, 9)} == {None}


def test_early_end_after_trials_that_reported_before_they_failed_ends_the_search():
    told = Told()
    assert [told.failed(number, "a", 0.5) for number in range(3)] == [None, None, SAME_FAILURE]


def test_early_end_on_a_resume_counts_a_trial_once_for_each_cause():
    told = Told()
    for number in range(3):
        told.failed(number, "a")
    told.resume(retry_failed=True)
    assert [told.failed(number, "a") for number in range(5)] == [None] * 5
    assert told.failed(5, "a") == SAME_FAILURE
    told.resume(retry_failed=True)
    assert [told.failed(number, "b") for number in range(3)] == [None, None, SAME_FAILURE]


def test_early_end_after_a_kill_counts_the_failures_before_it():
    told = Told()
    assert [told.failed(number, "a") for number in range(2)] == [None, None]
    assert told.resume(retry_failed=False) is None
    assert told.failed(2, "a") == SAME_FAILURE
    assert told.resume(retry_failed=False) == SAME_FAILURE


@pytest.mark.parametrize(
    ("trials", "reason", "status"),
    [
        ([], None, "completed"),
        (["failed"] * 4, None, "failed"),
        (["failed", "interrupted"], None, "completed"),
        (["failed", "interrupted"], TIME_BUDGET, "completed"),
        (["failed", "interrupted"], SAME_FAILURE, "failed"),
        (["failed", "completed"], None, "completed"),
    ],
)
def test_ending_without_a_usable_trial_is_failed(trials, reason, status):
    told, stop = Told(), StopRequest(None)
    stop.reason = reason
    for number, end in enumerate(trials):
        if end == "failed":
            told.failed(number, f"{number}")
        else:
            told.trial(number, *([0.5] if end == "completed" else []), status=end)
    space = {"x": "uniform(0, 9)"}
    spec = ExperimentSpec(
        name="s", search={"space": space}, objective=told.objective, num_samples=4
    )
    early = {"reason": reason, "never_started": 2} if reason else {}
    assert ending(spec, told.history, stop) == {"status": status, **early}
