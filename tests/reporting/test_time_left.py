import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import OWNER, START

from tuner.experiment.history import History
from tuner.reporting.time_left import TimeLeft, done, elapsed_s


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


@pytest.mark.parametrize("unknown", [{"total": None}, {"max_t": None}, {}])
def test_seconds_without_totals_or_after_the_end_is_none(unknown):
    search = Search(**unknown)
    search.begin()
    search.start(1)
    search.report(1, 1)
    if not unknown:
        search.apply("experiment_ended", status="interrupted")
    assert search.left_s(START + 10) is None


def test_seconds_at_a_steady_pace_is_that_of_the_epochs():
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
            assert search.left_s() == pytest.approx(20 - (search.now - START))
        for number in (first, first + 1):
            search.end(number, "completed")
    assert search.left_s() == 0


def test_seconds_after_resume_leaves_out_the_gap():
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
    assert search.left_s() == 34


def test_seconds_is_at_most_the_time_budget():
    search = Search(budget_s=60)
    search.begin()
    search.now += 10
    assert search.left_s() == 50
    search.start(1)
    search.now += 10
    search.report(1, 1)
    assert search.left_s() == 40
    endless = Search(budget_s=60, total=None)
    endless.begin()
    assert endless.left_s(START + 20) == 40
    assert endless.left_s(START + 90) == 0


def test_seconds_is_safe_in_another_thread():
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
def test_seconds_of_any_events_is_finite_or_none(steps, total, max_t):
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
        assert left is None or 0 <= left < math.inf
        assert 0 <= done(search.history) <= len(search.history.trials)
        assert elapsed_s(search.history, search.now) >= 0
