from stories import odd, search

from tuner.reporting.figures import rungs
from tuner.reporting.report import NO_SCHEDULER, NO_STOP, Report


def test_rungs_show_who_was_stopped_there(tmp_path):
    results = search(tmp_path / "x", 12)  # 8 of the 12 are run to their end or fail
    caption, plot = rungs.draw(Report(results))
    went_on, stopped = plot.data
    assert list(went_on.x) == ["1", "2", "4", "8"]
    assert list(stopped.y) == [7, 0, 0, 0]
    assert list(went_on.y) == [5, 5, 4, 4]
    assert caption == "Most trials were stopped at epoch 1: 7 of the 12 that reached it."


def test_nothing_to_show_says_why(tmp_path):
    assert rungs.draw(Report(odd(tmp_path / "x", "no_scheduler"))) == (NO_SCHEDULER, None)
    assert rungs.draw(Report(odd(tmp_path / "y", "one_trial"))) == (NO_STOP, None)
