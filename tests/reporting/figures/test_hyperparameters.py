from copy import copy

import pytest
from stories import odd, search

from tuner.reporting.figures import draw_section, hyperparameters
from tuner.reporting.figures.data import NO_NAMES, NO_TRIALS, FigureData
from tuner.reporting.figures.hyperparameters import SHADES
from tuner.spec.sections import Objective


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of a search of 60 trials, of which one failed."""
    return FigureData(search(tmp_path_factory.mktemp("search") / "x", 60))


@pytest.mark.parametrize("trials", [60, 12])
def test_importance_of_few_trials_is_not_significant(snapshot, tmp_path, trials):
    data = FigureData(search(tmp_path / "x", trials))
    snapshot.compare_value(hyperparameters.draw_importance(data))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        *(("no_trial", NO_TRIALS), ("all_failed", NO_TRIALS), ("one_config", NO_NAMES)),
        (
            "running",
            "Nothing to show: it takes 10 trials with a value, and there are 2.",
        ),
    ],
)
def test_importance_without_enough_trials_has_reason(tmp_path, kind, why):
    data = FigureData(odd(tmp_path / "x", kind))
    assert draw_section("hyperparameters", data)[0].caption == why


def test_parallel_draws_a_line_for_each_trial(snapshot, data):
    caption, plot = hyperparameters.draw_parallel_coordinates(data)
    ids = [trial_id for trace in plot["data"] for trial_id in trace["meta"]]
    assert ids[-1] == data.ranked[0].trial_id  # on top
    assert sorted(ids) == sorted(trial.trial_id for trial in data.ranked)
    for trace in plot["data"]:
        assert trace["x"] == [0, 1, 2, 3, None] * len(trace["meta"])
    snapshot.compare_value((caption, plot["layout"]))


@pytest.mark.parametrize("mode", ["max", "min"])
def test_parallel_draws_the_best_lines_darkest(tmp_path, mode):
    objective = {"metric": "val_accuracy", "mode": mode}
    data = FigureData(search(tmp_path / "x", 30, objective=objective))
    _, plot = hyperparameters.draw_parallel_coordinates(data)
    darkest = plot["data"][-1]
    assert darkest["line"]["color"] == next(iter(SHADES.values()))
    assert darkest["y"][0] == (1 if mode == "max" else 0)
    shades = [trace["line"]["color"] for trace in plot["data"]]
    assert shades == [shade for shade in reversed(SHADES.values()) if shade in shades]


def test_parallel_draws_trials_without_a_hyperparameter_below_its_axis(tmp_path):
    caption, plot = hyperparameters.draw_parallel_coordinates(
        FigureData(odd(tmp_path / "x", "conditional"))
    )
    assert "A line below an axis is a trial without that hyperparameter." in caption
    assert min(y for trace in plot["data"] for y in trace["y"] if y is not None) < 0


def test_slice_and_contour_of_a_branch_with_few_trials_have_reason(tmp_path):
    data = FigureData(search(tmp_path / "x", 30))
    for trial in data.ranked[9:]:
        del trial.config["momentum"]
    why = "Nothing to show: it takes 10 trials with a value, and 9 have it."
    assert hyperparameters.draw_slice(data, "momentum") == (why, None)
    assert hyperparameters.draw_contour(data, ("lr", "momentum")) == (why, None)
    assert hyperparameters.draw_slice(data, "lr")[1] is not None


def test_contour_is_the_mean_of_the_trials_nearby(data):
    _, plot = hyperparameters.draw_contour(data, ("lr", "momentum"))
    surface, _ = plot["data"]
    values = [trial.value for trial in data.ranked]
    measured = [value for row in surface["z"] for value in row if value is not None]
    assert min(values) <= min(measured) < max(measured) <= max(values)
    # Lr near 0.1, which is the best
    middle = [row[len(row) * 2 // 3] for row in surface["z"]]
    edge = [row[0] for row in surface["z"]]
    assert min(v for v in middle if v is not None) > max(
        [v for v in edge if v is not None], default=0
    )


def test_contour_is_missing_far_from_all_trials(writer):
    for number in range(12):
        share = number % 2 * 0.9 + 0.004 * number
        writer.trial(number, [share], config={"lr": 0.001 + share, "m": share})
    writer.end()
    _, plot = hyperparameters.draw_contour(FigureData(writer.results), ("lr", "m"))
    surface, _ = plot["data"]
    assert None in surface["z"][0]  # the corner where no trial was
    assert any(value is not None for value in surface["z"][0])


def test_slices_and_contours_of_leading_hyperparameters(snapshot, data):
    figures = draw_section("hyperparameters", data)
    snapshot.compare_value(
        [(figure.name, figure.title, figure.caption) for figure in figures]
    )
    snapshot.compare_value(hyperparameters.draw_slice(data, "lr"))
    snapshot.compare_value(hyperparameters.draw_contour(data, ("lr", "width")))


def test_figures_of_one_hyperparameter_with_outliers(snapshot, tmp_path):
    figures = draw_section(
        "hyperparameters", FigureData(odd(tmp_path / "y", "diverged"))
    )
    snapshot.compare_value(
        [(figure.name, figure.caption, figure.plot) for figure in figures]
    )


@pytest.mark.parametrize(("mode", "is_reversed"), [("max", True), ("min", False)])
def test_contour_is_darker_where_better(data, mode, is_reversed):
    other = copy(data)
    other.objective = Objective(mode=mode)
    _, plot = hyperparameters.draw_contour(other, ("lr", "momentum"))
    # The least is dark in Cividis
    assert plot["data"][0]["reversescale"] == is_reversed
