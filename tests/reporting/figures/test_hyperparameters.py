import re
from copy import copy

import pytest
from stories import odd, search

from tuner.reporting.figures import draw_section, hyperparameters
from tuner.reporting.figures.data import NO_NAMES, NO_TRIALS, FigureData
from tuner.reporting.figures.figure import GREY
from tuner.reporting.figures.hyperparameters import SHADES
from tuner.spec.sections import Objective


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of a search of 60 trials, of which one failed."""
    return FigureData(search(tmp_path_factory.mktemp("search") / "x", 60))


def test_importance_shows_the_spread(data):
    caption, plot = hyperparameters.draw_importance(data)
    (bars,) = plot["data"]
    assert bars["y"][-1].startswith("lr ")  # the highest bar
    assert bars["x"][-1] == max(bars["x"])
    assert all(above >= 0 for above in bars["error_x"]["array"] + bars["error_x"]["arrayminus"])
    assert caption.startswith("lr separates the best trials from the others most; its spread")
    assert "cannot be told" not in caption + "".join(bars["y"])


def test_importance_of_few_trials_is_not_significant(tmp_path):
    data = FigureData(search(tmp_path / "x", 12))  # too few for what lr does
    caption, plot = hyperparameters.draw_importance(data)
    (bars,) = plot["data"]
    assert not any(importance.told_apart for importance in data.importances)
    assert all(label.endswith("  cannot be told") for label in bars["y"])
    assert set(bars["marker"]["color"]) == {GREY}
    assert "matters most cannot be told" in caption


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        *(("no_trial", NO_TRIALS), ("all_failed", NO_TRIALS), ("one_config", NO_NAMES)),
        ("running", "Nothing to show: it takes 10 trials with a value, and there are 2."),
    ],
)
def test_importance_without_enough_trials_has_reason(tmp_path, kind, why):
    data = FigureData(odd(tmp_path / "x", kind))
    assert draw_section("hyperparameters", data)[0].caption == why


def test_parallel_draws_a_line_for_each_trial(data):
    caption, plot = hyperparameters.draw_parallel_coordinates(data)
    ids = [trial_id for trace in plot["data"] for trial_id in trace["meta"]]
    assert ids[-1] == data.ranked[0].trial_id  # on top
    assert sorted(ids) == sorted(trial.trial_id for trial in data.ranked)
    for trace in plot["data"]:
        assert trace["x"] == [0, 1, 2, 3, None] * len(trace["meta"])
        assert all(0 <= y <= 1 for y in trace["y"] if y is not None)
    assert "Of " not in caption
    titles = plot["layout"]["xaxis"]["ticktext"]
    assert titles == ["val_accuracy", "lr", "momentum", "width"]
    assert plot["layout"]["meta"]["axes"][1:] == [
        {"value": "lr", "low": 0.001, "high": 1.0, "log": True},
        {"value": "momentum", "low": 0.0, "high": 1.0, "log": False},
        {"value": "width", "categories": ["16", "32"]},
    ]


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


def slices(data):
    figures = draw_section("hyperparameters", data)
    return {figure.title: figure for figure in figures if figure.name.startswith("slice")}


def test_slices_name_range_of_best_trials_and_outliers(data, tmp_path):
    figures = slices(data)
    assert len(figures) == 3
    lr = figures["Slice: lr"]
    width = figures["Slice: width"]
    assert lr.name == "slice-0"
    assert lr.caption.startswith("The best 5 trials have lr between 0.0")
    (dots,) = lr.plot["data"]
    assert len(dots["x"]) == len(dots["customdata"]) == 59
    assert lr.plot["layout"]["xaxis"]["type"] == "log"
    assert re.match(r"The best 5 trials have width at (16|32|16 and 32)\.$", width.caption)
    (figure,) = slices(FigureData(odd(tmp_path / "y", "diverged"))).values()
    assert "3 trials above " in figure.caption
    assert max(figure.plot["data"][0]["y"]) < 10


def test_slice_and_contour_of_a_branch_with_few_trials_have_reason(tmp_path):
    data = FigureData(search(tmp_path / "x", 30))
    for trial in data.ranked[9:]:
        del trial.config["momentum"]
    why = "Nothing to show: it takes 10 trials with a value, and 9 have it."
    assert hyperparameters.draw_slice(data, "momentum") == (why, None)
    assert hyperparameters.draw_contour(data, ("lr", "momentum")) == (why, None)
    assert hyperparameters.draw_slice(data, "lr")[1] is not None


def test_contour_stands_at_the_values_of_a_choice_alone(data):
    _, plot = hyperparameters.draw_contour(data, ("lr", "width"))
    surface, dots = plot["data"]
    assert plot["layout"]["yaxis"]["ticktext"] == ["16", "32"]
    assert surface["y"] == [0, 1]
    assert set(dots["y"]) == {0, 1}
    assert plot["layout"]["xaxis"]["type"] == "log"


def test_contour_is_the_mean_of_the_trials_nearby(data):
    _, plot = hyperparameters.draw_contour(data, ("lr", "momentum"))
    surface, _ = plot["data"]
    values = [trial.value for trial in data.ranked]
    measured = [value for row in surface["z"] for value in row if value is not None]
    assert min(values) <= min(measured) < max(measured) <= max(values)
    middle = [row[len(row) * 2 // 3] for row in surface["z"]]  # lr near 0.1, which is the best
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


def contours(data):
    figures = draw_section("hyperparameters", data)
    return [figure for figure in figures if figure.name.startswith("contour")]


def test_contours_of_each_leading_pair_are_darker_where_better(data, tmp_path):
    figures = contours(data)
    assert [figure.name for figure in figures] == ["contour-0", "contour-1", "contour-2"]
    assert all(figure.plot is not None for figure in figures)
    assert contours(FigureData(odd(tmp_path / "y", "diverged"))) == []  # one hyperparameter
    for mode, is_reversed in (("max", True), ("min", False)):  # the least is dark in Cividis
        other = copy(data)
        other.objective = Objective(mode=mode)
        caption, plot = hyperparameters.draw_contour(other, ("lr", "momentum"))
        assert plot["data"][0]["reversescale"] == is_reversed
        assert caption.startswith("The darker, the better lr and momentum work together.")
