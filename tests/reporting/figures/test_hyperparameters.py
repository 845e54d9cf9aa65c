import re

import pytest
from stories import odd, search

from tuner.reporting.comparable import comparable
from tuner.reporting.figures.hyperparameters import NO_NAMES, NO_TRIALS, hyperparameter_figures
from tuner.reporting.importance import importances
from tuner.reporting.study import study_of


def figures_of(results):
    compared = comparable(results, study_of(results))
    return {f.name: f for f in hyperparameter_figures(compared, importances(compared))}


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    return figures_of(search(tmp_path_factory.mktemp("storage") / "x", 60))


def test_there_is_a_figure_for_each_question(figures):
    assert list(figures) == [
        *("importance", "parallel", "slice-0", "slice-1", "slice-2"),
        *("contour-0", "contour-1", "contour-2"),
    ]
    assert all(figure.plot is not None for figure in figures.values())


def test_importances_have_their_spread(figures):
    figure = figures["importance"]
    (bars,) = figure.plot.data
    assert bars.y[-1].startswith("lr ")  # the highest bar
    assert bars.x[-1] == max(bars.x)
    assert all(above >= 0 for above in (*bars.error_x.array, *bars.error_x.arrayminus))
    assert figure.says.startswith("lr tells the best trials from the others most; its spread")


def test_every_trial_is_a_line_in_parallel_coordinates(figures):
    lines = [trace for trace in figures["parallel"].plot.data if trace.mode == "lines"]
    assert len(lines) == 59  # one failed
    assert "Of " not in figures["parallel"].says


def test_a_slice_says_where_the_best_trials_lie(figures):
    figure = figures["slice-0"]
    assert figure.title == "Slice: lr"
    assert figure.says.startswith("The best 5 trials have lr between 0.0")
    (dots,) = figure.plot.data
    assert len(dots.x) == 59
    assert figure.plot.layout.xaxis.type == "log"


def test_few_values_are_listed(figures, tmp_path):
    widths = next(f for f in figures.values() if f.title == "Slice: width")
    assert re.match(r"The best 5 trials have width at (16|32|16 and 32)\.$", widths.says)
    texts = figures_of(odd(tmp_path / "x", "categorical"))
    told = {figure.title: figure.says for figure in texts.values()}
    assert told["Slice: a"] == "The best 3 trials have a at y."


def test_a_contour_is_lighter_where_it_is_better(figures, tmp_path):
    contour, _, _ = figures["contour-0"].plot.data
    assert not contour.reversescale
    diverged = figures_of(odd(tmp_path / "x", "diverged"))
    assert not [name for name in diverged if name.startswith("contour")]  # one hyperparameter


def test_many_trials_are_thinned_out_and_that_is_said(tmp_path):
    figures = figures_of(search(tmp_path / "x", 300))
    lines = [trace for trace in figures["parallel"].plot.data if trace.mode == "lines"]
    assert len(lines) == 150
    assert "Of 299 trials 150 are drawn" in figures["parallel"].says
    assert "Of 299 trials 100 are drawn" in figures["contour-0"].says


def test_what_is_drawn_elsewhere_is_said(tmp_path):
    figures = figures_of(odd(tmp_path / "x", "diverged"))
    assert "3 trials above " in figures["slice-0"].says
    assert max(figures["slice-0"].plot.data[0].y) < 10


@pytest.mark.parametrize(
    ("kind", "why"), [("no_trial", NO_TRIALS), ("all_failed", NO_TRIALS), ("one_config", NO_NAMES)]
)
def test_nothing_to_show_says_why(tmp_path, kind, why):
    figures = figures_of(odd(tmp_path / "x", kind))
    assert {figure.says for figure in figures.values()} == {why}
    assert {figure.plot for figure in figures.values()} == {None}
