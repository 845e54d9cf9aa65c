"""Several goals: weights, what a trial is compared by, and whole searches."""

import numpy as np
import pytest
from commands import call, fetch_json
from hypothesis import given
from hypothesis import strategies as st
from synthetic import ended

from tuner.errors import SpecError
from tuner.search.ask_tell import AskTell
from tuner.search.goals import GoalRung, compute_goal_weights, scalarize_losses
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.spec.experiment import build_spec

points_of_two = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30
)


def spec_of(storage, **changes):
    raw = {
        "name": "goals",
        "trainable": "elsewhere",
        "search": {
            "strategy": "bayesopt",
            "space": {"x": "uniform(0, 1)"},
            "startup": 3,
        },
        "objectives": [{"metric": "loss"}, {"metric": "ms", "mode": "min"}],
        "scheduler": {"max_t": 4, "grace_period": 1, "reduction_factor": 2},
        "num_samples": 16,
        "storage": str(storage),
    }
    return build_spec(raw | changes)


def run(spec, *, restarts=False):
    """The configs in order; the loss falls with x, and the milliseconds rise.

    restarts: whether the driver restarts after each report.
    """
    configs = {}
    where = spec
    is_over = False
    while not is_over:
        with AskTell(where) as search:
            where = spec.folder
            while trial := search.suggest("client"):
                configs[trial.trial_id] = trial.config
                train(search, trial, 1 if restarts else 4)
                if restarts:
                    break
            is_over = trial is None
    return list(configs.values())


def train(search, trial, epochs):
    """Report so many epochs, unless the trial is stopped or complete before."""
    for epoch in range(trial.epoch + 1, min(trial.epoch + epochs, 4) + 1):
        x = trial.config["x"]
        if search.report(trial.trial_id, epoch, {"loss": 1 - x + 1 / epoch, "ms": x}):
            return
        if trial.trial_id == "00002":
            search.complete(trial.trial_id, failure="out of memory", kind="oom")
            return
    if epoch == 4:
        search.complete(trial.trial_id)


@pytest.mark.parametrize("goals", [2, 3])
def test_weights_of_trials_are_shares_that_cover_the_front(goals):
    weights = np.array([compute_goal_weights(trial, goals) for trial in range(200)])
    assert (weights > 0).all()
    assert np.allclose(weights.sum(axis=1), 1)
    assert np.allclose(weights.mean(axis=0), 1 / goals, atol=0.02)
    assert (weights.max(axis=0) > 0.8).all()


@given(points_of_two)
def test_weighted_prefers_a_point_that_dominates(points):
    distances = scalarize_losses(
        np.array([*points, (2.0, 2.0)]), compute_goal_weights(3, 2)
    )
    assert distances[-1] == pytest.approx(max(distances))
    assert ((distances >= 0) & (distances <= 1.05 + 1e-9)).all()


def test_rungs_stop_what_is_worse_in_every_goal():
    rungs = Brackets(AshaSettings(max_t=2, reduction_factor=2), 1, GoalRung)
    assert rungs.goes_on("00000", 1, (0.5, 0.5))
    assert not rungs.goes_on("00001", 1, (0.9, 0.9))
    assert rungs.goes_on("00002", 1, (0.1, 0.1))
    assert rungs.goes_on("00001", 2, (0.9, 0.9))  # a rung decides once


@pytest.mark.parametrize("strategy", ["mixed", "bohb"])
def test_search_of_two_goals_resumes_as_if_undisturbed(tmp_path, strategy):
    search = {"strategy": strategy, "space": {"x": "uniform(0, 1)"}}
    calm = run(spec_of(tmp_path / "a", search=search, num_samples=10))
    again = spec_of(tmp_path / "b", search=search, num_samples=10)
    assert run(again, restarts=True) == calm
    xs = [config["x"] for config in calm]
    assert min(xs) < 0.3 < 0.7 < max(xs)


def test_front_is_in_best_and_show(tmp_path):
    objective = {"metric": "loss", "mode": "min", "others": [{"metric": "ms"}]}
    points = [(1, 2), (2, 1), (3, 3)]
    trials = [[{"loss": loss, "ms": ms}] for loss, ms in points]
    folder = ended(tmp_path / "goals", *trials, objective=objective)
    best = fetch_json("best", folder)
    assert [entry["trial_id"] for entry in best["front"]] == ["00000", "00001"]
    assert "Front of 2 trials" in call("best", folder).stdout
    assert "front" not in fetch_json("best", folder, "--metric", "ms")
    assert "Front        2 trials" in call("show", folder).stdout


@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": [{"metric": "a"}, {"metric": "a"}]},
        {"objectives": [{"metric": n} for n in "abcd"]},
        {"objectives": "loss"},
        {"objective": {"metric": "loss"}},
        {"objectives": [{"metric": "a"}, {"mode": "min"}]},
        {"scheduler": {"name": "a.b"}},
        {"warm_start": "earlier"},
        {"objective": {"limits": "ms < 9", "mode": "min"}},
    ],
)
def test_spec_of_several_goals_that_cannot_work_is_refused(snapshot, tmp_path, changes):
    with snapshot.raises(SpecError):
        spec_of(tmp_path, **changes)


def test_several_goals_may_have_limits_and_are_stopped_by_asha_unless_set(tmp_path):
    objective = {"limits": ["ms < 9"], "from_epoch": 2}
    spec = spec_of(tmp_path, objective=objective, scheduler={"max_t": 4})
    assert spec.scheduler.name == "asha"
    assert (spec.objective.metric, spec.objective.limits) == ("loss", ("ms < 9",))
    assert spec.objective.from_epoch == 2
    assert [other.metric for other in spec.objective.others] == ["ms"]
