import re

from stories import odd, search

from tuner.reporting.figures._figure import draw_section
from tuner.reporting.report import Report


def slices(results):
    figures = draw_section("hyperparameters", Report(results))
    return {one.title: one for one in figures if one.name.startswith("slice")}


def test_a_slice_says_where_the_best_trials_lie(tmp_path):
    figures = slices(search(tmp_path / "x", 60))
    assert len(figures) == 3
    lr, width = figures["Slice: lr"], figures["Slice: width"]
    assert lr.name == "slice-0"
    assert lr.caption.startswith("The best 5 trials have lr between 0.0")
    (dots,) = lr.plot.data
    assert len(dots.x) == 59
    assert lr.plot.layout.xaxis.type == "log"
    assert re.match(r"The best 5 trials have width at (16|32|16 and 32)\.$", width.caption)


def test_few_values_are_listed(tmp_path):
    figures = slices(odd(tmp_path / "x", "categorical"))
    assert figures["Slice: a"].caption == "The best 3 trials have a at y."


def test_what_is_drawn_elsewhere_is_said(tmp_path):
    (one,) = slices(odd(tmp_path / "x", "diverged")).values()
    assert "3 trials above " in one.caption
    assert max(one.plot.data[0].y) < 10


def test_without_a_varying_hyperparameter_there_is_none(tmp_path):
    assert slices(odd(tmp_path / "x", "one_config")) == {}
