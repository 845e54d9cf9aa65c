"""A signal or a spent budget ends a search, and signals are given back."""

import os
import signal
import threading

import pytest

from tuner.errors import InterruptedSearchError
from tuner.record.events import FINISH, PATIENCE, TARGET, TIME_BUDGET
from tuner.record.history import History
from tuner.search import stopping
from tuner.search.stopping import EarlyEnd, StopRequest, why_early
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective, Stop


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


def test_one_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(None) as ends:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not ends.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest(None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_search_under_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(None) as ends:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not ends.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with StopRequest(None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_time_runs_out(monkeypatch):
    now = 100.0
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now)
    ends = StopRequest(60)
    assert not ends.requested
    now = 160.0
    assert (ends.requested, ends.signal) == (True, None)


class Told:
    """What a search with such rules says after each event; a second passes before each."""

    def __init__(self, mode="min", **rules):
        objective = Objective(metric="m", mode=mode)
        self.objective, self.history, self.now = objective, History(objective), 0.0
        self.early_end = EarlyEnd(Stop(**rules), objective, self.history)
        self.after("experiment_started", resumed=False, owner={})

    def after(self, event, **fields):
        self.now += 1
        record = {"event": event, "time": self.now, **fields}
        self.history.apply(record)
        self.early_end(record)
        return self.early_end.reason(self.now)

    def trial(self, number, *values, status="completed"):
        trial_id = f"{number:05}"
        self.after("trial_started", trial_id=trial_id, config={})
        for epoch, value in enumerate(values, 1):
            self.after("result", trial_id=trial_id, epoch=epoch, metrics={"m": value})
        return self.after("trial_ended", trial_id=trial_id, status=status)


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
