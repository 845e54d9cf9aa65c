"""The front of several goals, and its hypervolume."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import search

from tuner.experiment.results.front import front_of, hypervolume
from tuner.experiment.trials import TrialRecord

points_of_two = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30)
OBJECTIVE = {
    "metric": "val_accuracy",
    "mode": "max",
    "others": [{"metric": "peak_memory_mib", "mode": "min"}],
}


@given(points_of_two)
def test_front_has_what_no_other_beats(points):
    trials = [(point, TrialRecord(f"{n:05}", 0.0)) for n, point in enumerate(points)]
    front = [point for point, _ in front_of(trials)]
    for point in points:
        assert any(a <= point[0] and b <= point[1] for a, b in front)
    for a, b in front:
        assert not any(x <= a and y <= b and (x, y) != (a, b) for x, y in points)


@given(points_of_two)
def test_hypervolume_is_the_share_of_points_that_are_dominated(points):
    draws = np.random.default_rng(0).random((4000, 2))
    dominated = (np.array(points)[None] <= draws[:, None]).all(axis=2).any(axis=1)
    assert hypervolume(points, (1.0, 1.0)) == pytest.approx(dominated.mean(), abs=0.04)


def test_hypervolume_of_three_goals():
    assert hypervolume([(0.5, 0.5, 0.5)], (1, 1, 1)) == 0.125
    assert hypervolume([(0, 0, 0.5), (0.5, 0.5, 0)], (1, 1, 1)) == 0.5 + 0.125
    assert hypervolume([(1, 0, 0)], (1, 1, 1)) == 0


def test_front_leaves_failed_trials_and_those_beyond_the_limits_out(tmp_path):
    results = search(tmp_path / "all", seed=1, objective=OBJECTIVE)
    limited = OBJECTIVE | {"limits": ["peak_memory_mib < 420"]}
    small = search(tmp_path / "small", seed=1, objective=limited)
    assert [trial.config["width"] for trial in results.front] == [32, 16]
    assert [trial.config["width"] for trial in small.front] == [16]
    assert "00004" not in {trial.trial_id for trial in results.front}
