from stories import odd, search

from tuner.reporting.figures import throughput
from tuner.reporting.report import Report


def test_throughput_has_a_point_for_each_trial(tmp_path):
    caption, plot = throughput.draw(Report(search(tmp_path / "x", 6)))
    assert list(plot.data[0].y) == [5000] * 6
    assert plot.layout.yaxis.title.text == "images a second"
    assert caption.startswith("The median trial makes 5000 images a second, the slowest (trial ")


def test_nothing_to_show_says_why(tmp_path):
    nothing = throughput.draw(Report(odd(tmp_path / "x", "no_trial")))
    assert nothing == ("Nothing to show: no trial has reported an epoch.", None)
