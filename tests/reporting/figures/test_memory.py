from stories import odd, search

from tuner.reporting.figures import memory
from tuner.reporting.report import Report


def test_memory_has_a_point_for_each_trial(tmp_path):
    caption, plot = memory.draw(Report(search(tmp_path / "x", 6)))
    assert list(plot.data[0].x) == list(range(6))
    assert max(plot.data[0].y) == 432
    assert caption.startswith("The largest trial took 432 MiB (trial ")


def test_nothing_to_show_says_why(tmp_path):
    nothing = memory.draw(Report(odd(tmp_path / "x", "no_trial")))
    assert nothing == ("Nothing to show: no trial reported peak_memory_mib.", None)
