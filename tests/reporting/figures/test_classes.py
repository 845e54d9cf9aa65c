import pytest
from stories import search

from tuner.reporting.figures import classes
from tuner.reporting.figures._figure import draw_section
from tuner.reporting.report import Report

MATRIX = {"classes": ["cat", "<b>"], "matrix": [[3, 1], [0, 4]]}


@pytest.fixture
def report(tmp_path):
    return Report(search(tmp_path / "x", 9))


def test_classes_shows_shares_of_each_true_class(report):
    report.test = {"confusion": MATRIX}
    caption, plot = classes.classes(report)
    assert [list(row) for row in plot.data[0].z] == [[0.75, 0.25], [0, 1]]
    assert "The least accurate is cat: 75% of 4 images" in caption
    assert "1 are taken for &lt;b&gt;" in caption


def test_classes_is_drawn_only_of_an_evaluated_trial(report):
    for measured, is_drawn in (None, False), ({"confusion": MATRIX}, True):
        report.test = measured
        drawn = [figure.name for figure in draw_section("best", report)]
        assert ("classes" in drawn) == is_drawn
