import re
from copy import copy
from dataclasses import replace

import pytest
from plotly.colors import unlabel_rgb
from stories import odd, search

from tuner.reporting.figures import draw_section, hyperparameters
from tuner.reporting.figures.figure import GREY
from tuner.reporting.report import NO_NAMES, NO_TRIALS, Report
from tuner.spec.sections import Objective


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a search of 60 trials, of which one failed."""
    return Report(search(tmp_path_factory.mktemp("search") / "x", 60))


def test_importance_shows_the_spread(report):
    caption, plot = hyperparameters.importance(report)
    (bars,) = plot.data
    assert bars.y[-1].startswith("lr ")  # the highest bar
    assert bars.x[-1] == max(bars.x)
    assert all(above >= 0 for above in (*bars.error_x.array, *bars.error_x.arrayminus))
    assert caption.startswith("lr separates the best trials from the others most; its spread")
    assert "cannot be told" not in caption + "".join(bars.y)


def test_importance_of_few_trials_is_not_significant(tmp_path):
    report = Report(search(tmp_path / "x", 12))  # too few for what lr does
    caption, plot = hyperparameters.importance(report)
    (bars,) = plot.data
    significant = [importance["told_apart"] for importance in report.as_dict()["importances"]]
    assert not any(significant)
    assert all(label.endswith("  cannot be told") for label in bars.y)
    assert set(bars.marker.color) == {GREY}
    assert "matters most cannot be told" in caption


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        *(("no_trial", NO_TRIALS), ("all_failed", NO_TRIALS), ("one_config", NO_NAMES)),
        ("running", "Nothing to show: it takes 10 trials with a value, and there are 2."),
    ],
)
def test_importance_without_enough_trials_has_reason(tmp_path, kind, why):
    assert hyperparameters.importance(Report(odd(tmp_path / "x", kind))) == (why, None)


def test_parallel_draws_a_line_for_each_trial(report):
    caption, plot = hyperparameters.parallel(report)
    assert [trace.mode for trace in plot.data].count("lines") == 59
    assert "Of " not in caption


@pytest.mark.parametrize("mode", ["max", "min"])
def test_parallel_draws_the_best_line_darkest_and_none_in_white(tmp_path, mode):
    report = Report(search(tmp_path / "x", 30, objective={"metric": "val_accuracy", "mode": mode}))
    _, plot = hyperparameters.parallel(report)
    lines = [trace for trace in plot.data if trace.mode == "lines"]
    darkness = [-sum(unlabel_rgb(line.line.color)) for line in lines]
    heights = [line.y[0] for line in lines]
    darkest = lines[darkness.index(max(darkness))]
    assert darkest.y[0] == (max(heights) if mode == "max" else min(heights))
    assert all(-value < 600 for value in darkness)  # of 765


def slices(report):
    figures = draw_section("hyperparameters", report)
    return {figure.title: figure for figure in figures if figure.name.startswith("slice")}


def test_slices_name_range_of_best_trials_and_outliers(report, tmp_path):
    figures = slices(report)
    assert len(figures) == 3
    lr, width = figures["Slice: lr"], figures["Slice: width"]
    assert lr.name == "slice-0"
    assert lr.caption.startswith("The best 5 trials have lr between 0.0")
    (dots,) = lr.plot.data
    assert len(dots.x) == 59
    assert lr.plot.layout.xaxis.type == "log"
    assert re.match(r"The best 5 trials have width at (16|32|16 and 32)\.$", width.caption)
    (figure,) = slices(Report(odd(tmp_path / "y", "diverged"))).values()
    assert "3 trials above " in figure.caption
    assert max(figure.plot.data[0].y) < 10


def test_slice_and_contour_of_a_branch_with_few_trials_have_reason(tmp_path):
    report = Report(search(tmp_path / "x", 30))
    trials = report.ranked.trials
    for trial in trials[9:]:
        del trial.params["momentum"], trial.distributions["momentum"]
    why = "Nothing to show: it takes 10 trials with a value, and 9 have it."
    assert hyperparameters.slices(report, "momentum") == (why, None)
    assert hyperparameters.contours(report, ("lr", "momentum")) == (why, None)
    assert hyperparameters.slices(report, "lr")[1] is not None


def test_contour_names_the_values_of_a_choice_alone(tmp_path):
    report = Report(search(tmp_path / "x", 30))
    _, plot = hyperparameters.contours(report, ("lr", "width"))
    assert list(plot.layout.yaxis.tickvals) == [16, 32]
    assert plot.layout.xaxis.tickvals is None


def contours(report):
    figures = draw_section("hyperparameters", report)
    return [figure for figure in figures if figure.name.startswith("contour")]


def test_contours_of_each_leading_pair_are_darker_where_better(report, tmp_path):
    figures = contours(report)
    assert [figure.name for figure in figures] == ["contour-0", "contour-1", "contour-2"]
    assert all(figure.plot is not None for figure in figures)
    assert contours(Report(odd(tmp_path / "y", "diverged"))) == []  # one hyperparameter
    for mode, is_reversed in (("max", True), ("min", False)):  # the least is dark in Cividis
        report = copy(report)
        report.ranked = replace(report.ranked, objective=Objective(mode=mode))
        caption, plot = hyperparameters.contours(report, ("lr", "momentum"))
        assert plot.data[0].reversescale == is_reversed
        assert caption.startswith("The darker, the better lr and momentum work together.")
