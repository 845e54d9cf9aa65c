import heapq
import math
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import OWNER, START

from tuner.experiment.history import History
from tuner.reporting.time_left import Span, TimeLeft, done, elapsed_s, latest
from tuner.spec.experiment import build_spec


class Search:
    """A history, what is known before it runs, and a clock that the test sets."""

    def __init__(self, **settings):
        self.history = History()
        self.time_left = TimeLeft(**{"total": 4, "max_t": 10} | settings)
        self.now = START

    def apply(self, event, number=None, **fields):
        whose = {} if number is None else {"trial_id": f"{number:05}"}
        self.history.apply({"event": event, "time": self.now} | whose | fields)

    def begin(self, resumed=False):
        self.apply("experiment_started", resumed=resumed, owner=OWNER)

    def start(self, number):
        self.apply("trial_started", number, config={})

    def report(self, number, epoch):
        self.apply("result", number, epoch=epoch, metrics={})

    def end(self, number, status):
        error = {"error": {"kind": "oom", "message": "m"}} if status == "failed" else {}
        self.apply("trial_ended", number, status=status, **error)

    def left_s(self, now=None):
        return self.time_left.seconds(self.history, self.now if now is None else now)


def test_what_is_over_is_done():
    search = Search()
    search.begin()
    assert done(search.history) == 0
    for number, status in enumerate(("completed", "stopped", "failed", "interrupted"), start=1):
        search.start(number)
        search.end(number, status)
    search.start(5)
    assert done(search.history) == 3


def test_time_passes_since_the_last_start_whatever_the_clock_says():
    search = Search()
    assert (elapsed_s(search.history, START), latest(search.history, START)) == (0, START)
    search.begin()
    assert elapsed_s(search.history, START + 60) == 60
    search.now += 30
    search.start(1)
    assert latest(search.history, START + 20) == START + 30  # a clock that is behind the events'
    assert elapsed_s(search.history, START + 20) == 30


def test_nothing_is_estimated_from_nothing():
    search = Search()
    assert search.left_s() is None
    search.begin()
    search.start(1)
    assert search.left_s(START + 60) is None
    assert elapsed_s(search.history, START + 60) == 60


@pytest.mark.parametrize("unknown", [{"total": None}, {"max_t": None}])
def test_unknown_totals_give_no_estimate(unknown):
    search = Search(**unknown)
    search.begin()
    search.start(1)
    search.report(1, 1)
    assert search.left_s(START + 10) is None


def test_the_time_left_at_a_steady_pace_is_that_of_the_epochs_and_perhaps_a_trial_alone():
    """4 trials of 10 epochs, two at a time, 1 s an epoch: 20 s in all."""
    search = Search()
    search.begin()
    for first in (1, 3):
        for number in (first, first + 1):
            search.start(number)
        for epoch in range(1, 11):
            search.now += 1
            for number in (first, first + 1):
                search.report(number, epoch)
            expected = 20 - (search.now - START)
            left = search.left_s()
            assert expected / 3 <= left.least <= expected + 1e-9
            assert expected - 1e-9 <= left.most <= expected * 1.7 + 5
        for number in (first, first + 1):
            search.end(number, "completed")
    assert search.left_s() == (0, 0)


def test_the_last_trial_alone_does_not_go_at_the_pace_of_all():
    search = Search(total=2)
    search.begin()
    for number in (1, 2):
        search.start(number)
    for epoch in range(1, 11):
        search.now += 1
        search.report(1, epoch)
    search.end(1, "completed")
    search.report(2, 1)  # slow: 9 epochs to go, of which both slots did 11 in 10 s
    assert search.left_s() == pytest.approx((90, 90))  # it has taken 10 s for one


def test_a_resume_goes_on_counting_without_the_gap_and_keeps_the_trials():
    search = Search()
    search.begin()
    search.start(1)
    search.now += 5
    search.report(1, 5)
    search.now += 1000
    search.begin(resumed=True)
    assert search.history.counts["interrupted"] == 1
    assert elapsed_s(search.history, search.now + 2) == 7
    assert search.history.duration_s == 5
    assert search.left_s() is None
    search.start(1)
    search.now += 1
    search.report(1, 6)
    assert 34 / 3 < search.left_s().least < 34 < search.left_s().most < 34 * 2


def test_an_end_leaves_nothing_to_estimate():
    search = Search()
    search.begin()
    search.start(1)
    search.report(1, 1)
    search.apply("experiment_ended", status="interrupted")
    assert search.left_s(START + 5) is None


def test_what_the_rungs_say_counts_beside_what_was_seen():
    search = Search(total=10, depth=4, rungs=(1, 3))
    search.begin()
    search.start(1)
    search.now += 2
    search.report(1, 1)
    left = search.left_s()
    assert 2 * 2 <= left.least <= 2 * (3 + 9 * 4) <= left.most
    search.end(1, "stopped")
    depth = (4 * 4 + 1) / 5  # as if four trials had lasted as the rungs say
    assert search.left_s().least < 2 * 9 * depth < search.left_s().most


def test_a_trial_that_runs_alone_ends_at_its_next_rung_or_as_the_longest():
    search = Search(total=1, max_t=81, depth=5, rungs=(1, 3, 9, 27))
    search.begin()
    search.start(1)
    for epoch in range(1, 6):
        search.now += 2
        search.report(1, epoch)
    assert search.left_s() == (2 * 4, 2 * 76)
    assert str(search.left_s()) == "at most 2m 32s left"
    assert search.left_s(search.now + 1).least == 2 * 4 - 1  # an epoch has begun


def test_a_time_budget_ends_it_at_the_latest():
    search = Search(budget_s=60)
    search.begin()
    search.now += 10
    assert search.left_s() == (0, 50)
    search.start(1)
    search.now += 10
    search.report(1, 1)
    assert search.left_s() == (40, 40)
    endless = Search(budget_s=60, total=None)
    endless.begin()
    assert endless.left_s(START + 20) == (40, 40)
    assert endless.left_s(START + 90) == (0, 0)


@pytest.mark.parametrize(
    ("span", "told"),
    [
        ((58, 65), "~1m 05s left"),
        ((10, 65), "10s to 1m 05s left"),
        ((2, 65), "at most 1m 05s left"),
        ((0, 0.6), "~1s left"),
    ],
)
def test_what_is_left_is_told_with_its_doubt(span, told):
    assert str(Span(*span)) == told


def simulated(seed, *, trials, slots, stops):
    """(seconds really left, span) at each report of a search whose trials differ in pace."""
    rng, waiting, told = random.Random(seed), list(range(trials, 0, -1)), []
    rungs = (1, 3, 9) if stops else ()
    depth = 1 + 2 / 3 + 6 / 9 + 18 / 27 if stops else None
    search = Search(total=trials, max_t=27, rungs=rungs, depth=depth)
    search.begin()
    running = []

    def start():
        search.start(waiting[-1])
        pace = rng.lognormvariate(0, 0.4)
        heapq.heappush(running, (search.now + pace, waiting.pop(), 1, pace))

    for _ in range(slots):
        start()
    while running:
        search.now, number, epoch, pace = heapq.heappop(running)
        search.report(number, epoch)
        is_stopped = epoch in rungs and rng.random() > 1 / 3
        if is_stopped or epoch == 27:
            search.end(number, "stopped" if is_stopped else "completed")
            if waiting:
                start()
        else:
            heapq.heappush(running, (search.now + pace, number, epoch + 1, pace))
        told.append((search.now, search.left_s()))
    return [(search.now - then, left) for then, left in told[:-1]]


@pytest.mark.parametrize("stops", [True, False])
def test_most_estimates_hold_what_is_really_left(stops):
    told = [
        entry
        for seed in range(10)
        for entry in simulated(seed, trials=24 if stops else 12, slots=4, stops=stops)
    ]
    held = sum(left.least <= really + 1e-6 and really - 1e-6 <= left.most for really, left in told)
    assert held / len(told) > 0.8


def test_the_spec_says_what_its_rungs_are():
    spec = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 10}
    for scheduler, epochs in (
        ({"max_t": 9, "reduction_factor": 3}, 1 + 2 / 3 + 6 / 9),
        ("none", 9),
    ):
        training = {"epochs": 9, "model": "cnn", "dataset": "digits"}
        search = Search()
        whole = spec | {"scheduler": scheduler, "training": training}
        search.time_left = TimeLeft.of(build_spec(whole), search.history)
        search.start(1)
        search.report(1, 1)
        left = search.left_s(START + 1)
        assert left.least <= epochs - 1 + 9 * epochs <= left.most


def test_a_view_may_ask_from_a_thread_of_its_own():
    search, over, estimates = Search(total=2000), threading.Event(), []

    def ask():
        while not over.is_set():
            estimates.append(search.left_s(START + 1))

    thread = threading.Thread(target=ask)
    search.begin()
    search.start(0)
    search.report(0, 1)
    thread.start()
    for number in range(1, 2000):
        search.start(number)
    over.set()
    thread.join()
    assert estimates
    assert None not in estimates


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
def test_whatever_happens_the_estimate_is_a_time_or_none(steps, total, max_t):
    search = Search(total=total, max_t=max_t)
    for what, number, epoch, status in steps:
        search.now += 1
        if what == "begin":
            search.begin(resumed=True)
        elif what == "start":
            search.start(number)
        elif what == "report":
            search.report(number, epoch)
        else:
            search.end(number, status)
        left = search.left_s()
        assert left is None or 0 <= left.least <= left.most < math.inf
        assert 0 <= done(search.history) <= len(search.history.trials)
        assert elapsed_s(search.history, search.now) >= 0
