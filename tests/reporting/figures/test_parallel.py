import pytest
from stories import odd, search

from tuner.reporting.figures import parallel
from tuner.reporting.ranked_trials import NO_NAMES, NO_TRIALS
from tuner.reporting.report import Report


def lines(plot):
    return [trace for trace in plot.data if trace.mode == "lines"]


def test_every_trial_is_a_line(tmp_path):
    caption, plot = parallel.draw(Report(search(tmp_path / "x", 60)))
    assert len(lines(plot)) == 59  # one failed
    assert "Of " not in caption


def test_many_trials_are_thinned_out_and_that_is_said(tmp_path):
    caption, plot = parallel.draw(Report(search(tmp_path / "x", 300)))
    assert len(lines(plot)) == 150
    assert "Of 299 trials 150 are drawn" in caption


@pytest.mark.parametrize(
    ("kind", "why"), [("no_trial", NO_TRIALS), ("all_failed", NO_TRIALS), ("one_config", NO_NAMES)]
)
def test_nothing_to_show_says_why(tmp_path, kind, why):
    assert parallel.draw(Report(odd(tmp_path / "x", kind))) == (why, None)
