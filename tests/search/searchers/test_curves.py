"""Trials of different age are compared at equal epochs only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.searchers.curves import milestones, standings

loss = st.integers(-640, 640).map(lambda k: k / 128)  # sums of these are exact
curve = st.lists(loss, min_size=1, max_size=6).map(lambda losses: dict(enumerate(losses, start=1)))


def test_trials_of_one_age_stand_by_their_last_loss() -> None:
    assert standings([{1: 3.0, 2: 1.0}, {1: 0.0, 2: 2.0}]).tolist() == [1.0, 2.0]


def test_a_longer_trial_is_not_better_for_its_age() -> None:
    young, old = {1: 2.0}, {1: 2.5, 2: 1.0}
    assert np.argmin(standings([young, old])) == 0


def test_a_stopped_trial_stands_where_those_like_it_ended() -> None:
    went_on = [{1: 1.0, 2: 0.1}, {1: 2.0, 2: 0.3}, {1: 3.0, 2: 0.9}]
    found = standings([*went_on, {1: 1.5}, {1: 9.0}, {1: 0.5}])
    assert np.allclose(found, [0.1, 0.3, 0.9, 0.2, 0.9, 0.1])
    assert found[4] > found[2]
    assert found[5] < found[0]


def test_those_that_nobody_can_be_compared_with_are_spread_over_the_others() -> None:
    assert standings([{10: 0.1}, {10: 0.9}, {1: 7.0}, {1: 5.0}]).tolist() == [0.1, 0.9, 0.9, 0.1]


@given(st.lists(curve, min_size=1, max_size=8), st.randoms())
def test_standings_depend_neither_on_order_nor_on_a_drop_shared_by_all_epochs(curves, random):
    shuffled = random.sample(range(len(curves)), len(curves))
    found = standings(curves)
    assert np.allclose(standings([curves[i] for i in shuffled]), found[shuffled])
    last = max(max(c) for c in curves)
    moved = [{t: loss - 100 * t for t, loss in c.items()} for c in curves]
    assert np.allclose(standings(moved), found - 100 * last, atol=1e-6)


@given(st.lists(curve, max_size=8))
def test_standings_are_finite(curves) -> None:
    assert np.isfinite(standings([{t: 3e307 * x for t, x in c.items()} for c in curves])).all()


def test_one_that_diverged_does_not_decide_where_others_stand() -> None:
    steady = [{1: 1.0, 2: 0.5}, {1: 1.1, 2: 0.6}]
    found = standings([*steady, {1: 2.0, 2: 1e308}, {1: 1.05}])
    assert found[-1] == pytest.approx(0.55)


@given(st.lists(curve, min_size=1, max_size=8))
def test_standings_keep_the_order_of_trials_of_one_age(curves) -> None:
    found = standings(curves)
    for i, a in enumerate(curves):
        for j, b in enumerate(curves):
            if max(a) == max(b) and a[max(a)] < b[max(b)]:
                assert found[i] <= found[j]


@given(curve)
def test_milestones_are_epochs_of_the_curve_and_end_with_its_last(c) -> None:
    found = list(milestones(c))
    assert set(found) <= set(c)
    assert found[-1] == max(c)
