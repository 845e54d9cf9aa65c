import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import OWNER, START

from tuner.reporting.tally import Tally
from tuner.spec.experiment import build_spec


class Told:
    """A tally and a clock that the test sets; events in few words."""

    def __init__(self, **settings):
        defaults = {"total": 4, "max_t": 10, "metric": "acc", "mode": "max"}
        self.tally = Tally(**defaults | settings)
        self.now = START

    def tell(self, event, number=None, **fields):
        whose = {} if number is None else {"trial_id": f"{number:05}"}
        self.tally.take({"event": event, "time": self.now} | whose | fields)

    def begin(self, resumed=False):
        self.tell("experiment_started", resumed=resumed, owner=OWNER)

    def start(self, number):
        self.tell("trial_started", number, config={"n": number})

    def report(self, number, epoch, acc=None):
        self.tell("result", number, epoch=epoch, metrics={} if acc is None else {"acc": acc})

    def end(self, number, status):
        error = {"error": {"kind": "oom", "message": "m"}} if status == "failed" else {}
        self.tell("trial_ended", number, status=status, **error)


def test_trials_are_counted_by_status():
    told = Told()
    told.begin()
    for number, status in enumerate(("completed", "stopped", "failed", "interrupted"), start=1):
        told.start(number)
        assert told.tally.counts["running"] == 1
        told.end(number, status)
    assert told.tally.done == 3
    assert +told.tally.counts == {"completed": 1, "stopped": 1, "failed": 1, "interrupted": 1}


def test_the_best_is_the_first_of_the_best_value():
    told = Told()
    told.start(1)
    told.report(1, 1, 0.5)
    told.report(1, 2, 0.5)
    told.start(2)
    told.report(2, 1, 0.5)
    best = told.tally.best
    assert (best.value, best.trial_id, best.epoch, best.config) == (0.5, "00001", 1, {"n": 1})


def test_lower_is_better_where_the_mode_says_so():
    told = Told(mode="min")
    for epoch, value in enumerate((0.5, 0.7, 0.3), start=1):
        told.report(1, epoch, value)
    assert (told.tally.best.value, told.tally.best.epoch) == (0.3, 3)


def test_a_trial_that_fails_is_no_longer_the_best():
    told = Told()
    for number, value in ((1, 0.5), (2, 0.9), (3, 0.7)):
        told.report(number, 1, value)
    told.end(2, "failed")
    assert told.tally.best.trial_id == "00003"
    told.end(3, "failed")
    told.end(1, "failed")
    assert told.tally.best is None


def test_nothing_is_guessed_from_nothing():
    told = Told()
    assert told.tally.left_s(START) is None
    told.begin()
    told.start(1)
    assert told.tally.left_s(START + 60) is None
    assert told.tally.elapsed_s(START + 60) == 60


@pytest.mark.parametrize("unknown", [{"total": None}, {"max_t": None}])
def test_unknown_totals_give_no_guess(unknown):
    told = Told(**unknown)
    told.begin()
    told.start(1)
    told.report(1, 1)
    assert told.tally.left_s(START + 10) is None


def test_the_time_left_at_a_steady_pace_is_exact():
    """4 trials of 10 epochs, two at a time, 1 s an epoch: 20 s in all."""
    told = Told()
    told.begin()
    for first in (1, 3):
        for number in (first, first + 1):
            told.start(number)
        for epoch in range(1, 11):
            told.now += 1
            for number in (first, first + 1):
                told.report(number, epoch)
            expected = 20 - (told.now - START)
            assert told.tally.left_s(told.now) == pytest.approx(expected)
        for number in (first, first + 1):
            told.end(number, "completed")
    assert told.tally.left_s(told.now) == 0


def test_the_last_trial_alone_does_not_go_at_the_pace_of_all():
    told = Told(total=2)
    told.begin()
    for number in (1, 2):
        told.start(number)
    for epoch in range(1, 11):
        told.now += 1
        told.report(1, epoch)
    told.end(1, "completed")
    told.report(2, 1)  # slow: 9 epochs to go, of which both slots did 11 in 10 s
    assert told.tally.left_s(told.now) == pytest.approx(9 * 2 * 10 / 11)


def test_a_resume_counts_time_anew_and_keeps_the_trials():
    told = Told()
    told.begin()
    told.start(1)
    told.report(1, 5, 0.5)
    told.now += 1000
    told.begin(resumed=True)
    assert told.tally.counts["interrupted"] == 1
    assert told.tally.elapsed_s(told.now) == 0
    assert told.tally.left_s(told.now) is None
    told.start(1)
    told.now += 1
    told.report(1, 6)
    assert told.tally.left_s(told.now) == pytest.approx(4 + 3 * 10)
    assert told.tally.best.value == 0.5


def test_an_end_leaves_nothing_to_guess():
    told = Told()
    told.begin()
    told.start(1)
    told.report(1, 1)
    told.tell("experiment_ended", status="interrupted")
    assert told.tally.left_s(START + 5) is None


def test_what_the_rungs_promise_counts_beside_what_was_seen():
    told = Told(total=10, depth=4, slots=1)
    told.begin()
    told.start(1)
    told.now += 2
    told.report(1, 1)
    assert told.tally.left_s(told.now) == pytest.approx(2 * (3 + 9 * 4))
    told.end(1, "stopped")
    depth = (4 * 4 + 1) / 5  # as if four trials had lasted as promised
    assert told.tally.left_s(told.now) == pytest.approx(2 * 9 * depth)


def test_the_tally_of_an_experiment_knows_its_rungs():
    spec = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 10}
    for scheduler, epochs in (
        ({"max_t": 9, "reduction_factor": 3}, 1 + 2 / 3 + 6 / 9),
        ("none", 9),
    ):
        training = {"epochs": 9, "model": "cnn", "dataset": "digits"}
        tally = Tally.of(build_spec(spec | {"scheduler": scheduler, "training": training}), slots=1)
        for event, fields in (("trial_started", {"config": {}}), ("result", {"metrics": {}})):
            tally.take({"event": event, "time": START, "trial_id": "00001", "epoch": 1} | fields)
        assert tally.left_s(START + 1) == pytest.approx(epochs - 1 + 9 * epochs)


def test_what_runs_and_what_failed_is_known():
    told = Told()
    for number in (1, 2):
        told.start(number)
        told.report(number, number, 0.5)
    told.end(2, "failed")
    assert [(t.trial_id, t.epoch, t.value, t.config) for t in told.tally.live] == [
        ("00001", 1, 0.5, {"n": 1})
    ]
    assert [(t.trial_id, t.kind, t.message) for t in told.tally.failed] == [("00002", "oom", "m")]


STATUSES = ("completed", "stopped", "failed", "interrupted")


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["begin", "start", "report", "end"]),
            st.integers(1, 5),
            st.integers(1, 12),
            st.sampled_from(STATUSES),
        )
    ),
    total=st.none() | st.integers(1, 8),
    max_t=st.none() | st.integers(1, 10),
)
def test_any_story_counts_every_trial_once(steps, total, max_t):
    told = Told(total=total, max_t=max_t)
    seen = set()
    for what, number, epoch, status in steps:
        told.now += 1
        if what == "begin":
            told.begin(resumed=True)
            continue
        seen.add(number)
        if what == "start":
            told.start(number)
        elif what == "report":
            told.report(number, epoch, acc=epoch / 10)
        else:
            told.end(number, status)
        left = told.tally.left_s(told.now)
        assert left is None or (math.isfinite(left) and left >= 0)
        counts = told.tally.counts
        assert sum(counts.values()) == len(seen)
        assert min(counts.values()) >= 0
