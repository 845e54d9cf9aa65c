"""Trials of different age are compared at equal epochs only."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.searchers.curves import milestones, standings

curve = st.lists(st.floats(-5, 5), min_size=1, max_size=6).map(
    lambda losses: dict(enumerate(losses, start=1))
)


def test_trials_of_one_age_stand_by_their_last_loss() -> None:
    assert standings([{1: 3.0, 2: 1.0}, {1: 0.0, 2: 2.0}]).tolist() == [1.0, 2.0]


def test_a_longer_trial_is_not_better_for_its_age() -> None:
    young, old = {1: 2.0}, {1: 2.5, 2: 1.0}
    assert standings([young, old]).tolist() == [-1.0, 1.0]


@given(st.lists(curve, min_size=1, max_size=8), st.randoms())
def test_standings_do_not_depend_on_order_and_a_drop_shared_by_all_epochs(curves, random) -> None:
    shuffled = random.sample(range(len(curves)), len(curves))
    same = standings([curves[i] for i in shuffled])
    assert np.allclose(same, standings(curves)[shuffled])
    if len({max(c) for c in curves}) > 1:
        moved = [{t: loss - 100 * t for t, loss in c.items()} for c in curves]
        assert np.abs(standings(moved)).max() <= 1


@given(curve)
def test_milestones_are_epochs_of_the_curve_and_end_with_its_last(c) -> None:
    found = list(milestones(c))
    assert set(found) <= set(c)
    assert found[-1] == max(c)
