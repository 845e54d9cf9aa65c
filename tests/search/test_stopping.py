"""What ends a search early: signals, a spent budget, a target, patience, and failures alike."""

import os
import signal

import pytest
from synthetic import Clock, Writer, make_folder

from tuner.errors import InterruptedSearchError
from tuner.experiment.events import (
    FINISH,
    PATIENCE,
    SAME_FAILURE,
    TARGET,
    TIME_BUDGET,
    UTILITY,
)
from tuner.experiment.history import History
from tuner.experiment.results.results import Results
from tuner.search.stopping import EarlyEnd, StopRequest, describe_end, estimate_refit_s
from tuner.signals import catch_signals
from tuner.spec.sections import Objective, Stop
from tuner.spec.space.parsing import parse_space


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stop_request_after_a_signal_is_requested(number):
    stop = StopRequest(None)
    with catch_signals(stop.receive_signal):
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert (stop.requested, stop.signal) == (True, number)
    assert InterruptedSearchError("m", stop.signal).exit_code == 128 + number


def test_stop_request_keeps_the_first_signal_and_raises_a_second_ctrl_c():
    stop = StopRequest(None)
    with catch_signals(stop.receive_signal):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGTERM


def test_stop_request_says_why_the_search_ends_early():
    reserved = [50.0]  # for what comes after
    stop = StopRequest(60, reserved_s=lambda: reserved[0])
    assert (stop.requested, stop.why_early) == (False, None)
    reserved[0] = 61.0
    assert (stop.requested, stop.signal, stop.why_early) == (True, None, TIME_BUDGET)
    stop.reason = TARGET
    assert stop.why_early == TARGET


@pytest.mark.parametrize(("refit", "least_s"), [(False, None), (True, 0.75 * 8.0)])
def test_refit_s_is_more_than_the_time_up_to_the_best_epoch(tmp_path, refit, least_s):
    writer = Writer(make_folder(tmp_path / "x", refit=refit), clock=Clock(tick=1.0))
    writer.trial(0, [0.5, 0.6, 0.7, 0.6])
    results = Results(writer.folder)
    expected_s = estimate_refit_s(results.spec, results.history)
    assert expected_s > least_s if refit else expected_s == 0
    assert expected_s < 60


def test_a_refit_may_start_as_slowly_as_the_search_has(tmp_path):
    def measure_refit_s(start_s):
        clock = Clock(tick=1.0)
        writer = Writer(make_folder(tmp_path / f"{start_s}", refit=True), clock=clock)
        clock.now += start_s
        writer.trial(0, [0.5, 0.6, 0.7])
        results = Results(writer.folder)
        return estimate_refit_s(results.spec, results.history)

    at_once = measure_refit_s(0)
    assert measure_refit_s(5) == at_once
    assert measure_refit_s(55) == pytest.approx(at_once + 46)


class Search:
    """A search with stop rules, and what they say after each event; a second passes before each."""

    def __init__(self, mode="min", space=None, objective=None, **rules):
        self.objective = Objective(metric="m", mode=mode, **(objective or {}))
        self.history = History(self.objective)
        self.now = 0.0
        self.space = parse_space(space or {"x": "uniform(0, 1)"})
        self.drive(Stop(**rules), resumed=False)

    def drive(self, stop, *, resumed):
        self.early_end = EarlyEnd(stop, self.objective, self.history, self.space)
        self.after("experiment_started", resumed=resumed, owner={})

    def after(self, event, **fields):
        self.now += 1
        record = {"event": event, "time": self.now, **fields}
        self.history.apply(record)
        self.early_end(record)
        return self.early_end.find_reason(self.now)

    def resume(self, *, retry_failed):
        self.drive(Stop(), resumed=True)
        for trial in self.history.list_by_status("failed") if retry_failed else ():
            self.after("trial_ended", trial_id=trial.trial_id, status="interrupted")
        return self.early_end.find_reason(self.now)

    def start(self, number, *values, config=None):
        trial_id = f"{number:05}"
        self.after(
            "trial_started", trial_id=trial_id, config=config or {"x": number / 99}
        )
        for epoch, value in enumerate(values, 1):
            self.after("result", trial_id=trial_id, epoch=epoch, metrics={"m": value})
        return trial_id

    def trial(self, number, *values, status="completed", config=None, **end):
        trial_id = self.start(number, *values, config=config)
        return self.after("trial_ended", trial_id=trial_id, status=status, **end)

    def failed(self, number, message, *values, kind="exception", config=None):
        error = {"kind": kind, "message": message}
        return self.trial(number, *values, status="failed", config=config, error=error)

    def ending(self, stop, *, num_samples):
        return describe_end(num_samples, self.history, stop)


@pytest.mark.parametrize(("mode", "values"), [("min", (0.5, 0.2)), ("max", (0.1, 0.2))])
def test_early_end_at_the_target_ends_the_search(mode, values):
    search = Search(mode, target=0.2)
    assert search.trial(0, values[0]) is None
    assert search.trial(1, values[1]) == TARGET


def test_early_end_counts_trials_in_a_row_without_a_better_value():
    search = Search(patience_trials=2)
    assert search.trial(0, 0.5) is None
    assert search.trial(1, 0.6, status="stopped") is None
    assert search.trial(2, 0.4) is None  # a better value: the count begins anew
    assert search.trial(3, 0.5) is None
    assert search.trial(4, 0.5, status="stopped") == PATIENCE


def test_early_end_counts_no_interrupted_trial():
    search = Search(patience_trials=2)
    search.trial(0, 0.5)
    for number in range(1, 6):  # a pause, or a resume that retries failed trials
        assert search.trial(number, 0.6, status="interrupted") is None
    assert [search.trial(number, 0.6) for number in (1, 2)] == [None, PATIENCE]


def test_early_end_counts_seconds_without_a_better_value_except_in_a_pause():
    search = Search(patience_s=10)
    search.trial(0, 0.5, 0.4)
    assert search.early_end.find_reason(search.now + 8) is None
    assert search.early_end.find_reason(search.now + 10) == PATIENCE
    search.after("control", id="1", control={"verb": "pause"})
    search.now += 99
    assert search.early_end.find_reason(search.now) is None
    assert search.after("control", id="2", control={"verb": "go-on"}) is None
    assert search.early_end.find_reason(search.now + 9) is None
    assert search.early_end.find_reason(search.now + 10) == PATIENCE


def test_early_end_when_little_is_expected_of_another_hour():
    rule = Stop(utility=0.895)
    values = (0.1, 0.2, 0.3, 0.4, 0.45, *[0.9] * 16)
    search = Search(utility=rule.utility)
    ends = [search.trial(number, value) for number, value in enumerate(values)]
    assert ends == [None] * 20 + [UTILITY]
    search.drive(rule, resumed=True)  # as when it was killed before its end
    assert search.early_end.find_reason(search.now) == UTILITY
    search.drive(Stop(utility=0.88), resumed=True)
    assert search.early_end.find_reason(search.now) is None
    assert [search.trial(number, 0.9) for number in (21, 22)] == [None, UTILITY]


class _Counted(dict):
    reads = 0

    def values(self):
        self.reads += 1
        return super().values()


def test_early_end_reads_all_of_many_trials_seldom():
    search = Search(utility=1e-9)
    search.history.trials = trials = _Counted()
    for number in range(1000):
        search.trial(number, 1 / (1 + number))
    assert 100 <= trials.reads < 400  # each time while there are few


@pytest.mark.parametrize("kind", ["exception", "bad_report", "crash", "timeout"])
def test_early_end_after_three_first_failures_of_one_cause_ends_the_search(kind):
    search = Search()
    messages = (
        "no lss; at net.py:12, <Net 0x7f01>",
        "no lss; at net.py:12, <Net 0x7f9b>",
    )
    assert search.failed(0, messages[0], kind=kind) is None
    assert search.failed(1, messages[1], kind=kind) is None
    assert search.failed(2, messages[0], kind=kind) == SAME_FAILURE


def test_early_end_after_failures_of_different_causes_goes_on():
    search = Search()
    assert {search.failed(n, text) for n, text in enumerate(("a", "b", "a", "b"))} == {
        None
    }
    assert search.failed(4, "a", kind="crash") is None
    assert search.failed(5, "a") == SAME_FAILURE


@pytest.mark.parametrize("kind", ["nan", "oom"])
def test_early_end_after_failures_that_configs_may_cause_waits_for_ten(kind):
    search = Search()
    assert {search.failed(n, "allocate 2 GiB of 9", kind=kind) for n in range(9)} == {
        None
    }
    assert search.failed(9, "allocate 2 GiB of 7", kind=kind) == SAME_FAILURE


def test_early_end_after_errors_of_configs_with_one_choice_waits_for_another_choice():
    search = Search(
        space={"x": "uniform(0, 1)", "net": "choice(['a', 'b'])", "seed": 1}
    )
    for number in range(4):
        config = {"x": number / 9, "net": "a", "seed": 1}
        assert search.failed(number, "no net a", config=config) is None
    assert (
        search.failed(4, "no net a", config={"x": 1, "net": "b", "seed": 1})
        == SAME_FAILURE
    )


@pytest.mark.parametrize("uncounted", [{"limits": ["m < 0"]}, {"from_epoch": 2}])
def test_early_end_with_reports_that_do_not_count_goes_on(uncounted):
    search = Search(objective=uncounted)
    search.trial(0, 0.5)
    assert {search.failed(number, "a", kind="crash") for number in range(1, 12)} == {
        None
    }


@pytest.mark.parametrize("kind", ["exception", "bad_report", "crash"])
def test_early_end_waits_for_trials_that_began_before_the_failures(kind):
    search = Search()
    slow = [search.start(number) for number in range(13)]
    assert {search.failed(number, "a", kind=kind) for number in range(13, 18)} == {None}
    error = {"kind": kind, "message": "a"}
    ends = [
        search.after("trial_ended", trial_id=i, status="failed", error=error)
        for i in slow
    ]
    assert ends == [None] * 12 + [SAME_FAILURE]


def test_early_end_after_a_kill_waits_for_trials_that_began_before_the_failures():
    search = Search()
    search.start(0)
    for number in range(1, 4):
        search.failed(number, "a")
    assert search.resume(retry_failed=False) is None
    search.start(0)
    assert search.failed(4, "a") is None
    assert search.after("result", trial_id="00000", epoch=1, metrics={"m": 0.5}) is None
    assert search.failed(5, "a") is None


def test_early_end_on_a_resume_waits_for_failed_trials_that_run_again():
    search = Search()
    for number in range(4):
        search.failed(number, f"{number}")
    search.resume(retry_failed=True)
    search.start(3)
    assert {search.failed(number, "b") for number in range(3)} == {None}
    assert search.after("result", trial_id="00003", epoch=1, metrics={"m": 0.5}) is None


def test_early_end_on_a_resume_counts_a_trial_once_for_each_cause():
    search = Search()
    for number in range(3):
        search.failed(number, "a")
    search.resume(retry_failed=True)
    assert [search.failed(number, "a") for number in range(5)] == [None] * 5
    assert search.failed(5, "a") == SAME_FAILURE
    search.resume(retry_failed=True)
    assert [search.failed(number, "b") for number in range(3)] == [
        None,
        None,
        SAME_FAILURE,
    ]


def test_early_end_after_a_kill_counts_the_failures_before_it():
    search = Search()
    assert [search.failed(number, "a") for number in range(2)] == [None, None]
    assert search.resume(retry_failed=False) is None
    assert search.failed(2, "a") == SAME_FAILURE
    assert search.resume(retry_failed=False) == SAME_FAILURE


@pytest.mark.parametrize(("begun_after", "never_started"), [(0, 2), (1, 1), (2, None)])
def test_ending_counts_requested_configs_beyond_the_number_of_samples(
    begun_after, never_started
):
    search = Search()
    search.trial(0, 0.5)
    search.trial(1, 0.4)
    search.after("control", id="1", control={"verb": "num-samples", "num_samples": 1})
    for number in (2, 3):
        search.after(
            "control", id=f"{number}", control={"verb": "try", "config": {"x": number}}
        )
    search.after("control", id="4", control={"verb": "finish"})
    for number in range(2, 2 + begun_after):
        search.after(
            "trial_started", trial_id=f"{number:05}", config={}, origin="asked"
        )
        search.after("trial_ended", trial_id=f"{number:05}", status="completed")
    early = {"reason": FINISH, "never_started": never_started} if never_started else {}
    assert search.ending(StopRequest(None), num_samples=1) == {
        "status": "completed",
        **early,
    }


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
    search = Search()
    stop = StopRequest(None)
    stop.reason = reason
    for number, end in enumerate(trials):
        if end == "failed":
            search.failed(number, f"{number}")
        else:
            search.trial(number, *([0.5] if end == "completed" else []), status=end)
    early = {"reason": reason, "never_started": 2} if reason else {}
    assert search.ending(stop, num_samples=4) == {"status": status, **early}
