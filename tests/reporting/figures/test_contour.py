from dataclasses import replace

from stories import odd, search

from tuner.reporting.figures import contour
from tuner.reporting.figures._figure import draw_section
from tuner.reporting.report import Report
from tuner.spec.sections import Objective


def contours(results):
    figures = draw_section("hyperparameters", Report(results))
    return [one for one in figures if one.name.startswith("contour")]


def test_there_is_one_for_each_pair_of_the_leading_hyperparameters(tmp_path):
    figures = contours(search(tmp_path / "x", 60))
    assert [one.name for one in figures] == ["contour-0", "contour-1", "contour-2"]
    assert all(one.plot is not None for one in figures)
    assert contours(odd(tmp_path / "y", "diverged")) == []  # one hyperparameter


def test_a_contour_is_darker_where_it_is_better(tmp_path):
    report = Report(search(tmp_path / "x", 60))
    for mode, is_reversed in (("max", True), ("min", False)):  # the least is dark in Cividis
        report.ranked = replace(report.ranked, objective=Objective(mode=mode))
        caption, plot = contour.draw(report, ("lr", "momentum"))
        assert plot.data[0].reversescale == is_reversed
        assert caption.startswith("The darker, the better lr and momentum work together.")


def test_many_trials_are_thinned_out_and_that_is_said(tmp_path):
    first, *_ = contours(search(tmp_path / "x", 300))
    assert "Of 299 trials 100 are drawn" in first.caption


def test_hyperparameters_that_no_trial_has_together_show_nothing(tmp_path):
    report = Report(odd(tmp_path / "x", "conditional"))
    caption, plot = contour.draw(report, ("opt.lr", "opt"))
    assert plot is None
    assert "no trials have both" in caption
