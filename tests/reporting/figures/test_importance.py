import pytest
from stories import odd, search

from tuner.reporting import ranked_trials
from tuner.reporting.figures import importance
from tuner.reporting.ranked_trials import NO_NAMES, NO_TRIALS
from tuner.reporting.report import Report


def test_importances_have_their_spread(tmp_path):
    caption, plot = importance.draw(Report(search(tmp_path / "x", 60)))
    (bars,) = plot.data
    assert bars.y[-1].startswith("lr ")  # the highest bar
    assert bars.x[-1] == max(bars.x)
    assert all(above >= 0 for above in (*bars.error_x.array, *bars.error_x.arrayminus))
    assert caption.startswith("lr separates the best trials from the others most; its spread")
    assert "cannot be told" not in caption + "".join(bars.y)


def test_where_nothing_matters_the_figure_says_that_it_cannot_be_told(tmp_path):
    report = Report(search(tmp_path / "x", 12))  # too few for what lr does
    caption, plot = importance.draw(report)
    (bars,) = plot.data
    told = [one["told_apart"] for one in report.as_dict()["importances"]]
    assert not any(told)
    assert all(label.endswith("  cannot be told") for label in bars.y)
    assert set(bars.marker.color) == {importance.GREY}
    assert "matters most cannot be told" in caption


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        *(("no_trial", NO_TRIALS), ("all_failed", NO_TRIALS), ("one_config", NO_NAMES)),
        ("running", "Nothing to show: it takes 10 trials with a value, and there are 2."),
    ],
)
def test_nothing_to_show_says_why(tmp_path, kind, why):
    assert importance.draw(Report(odd(tmp_path / "x", kind))) == (why, None)


def test_of_too_many_trials_some_are_weighed_and_it_says_so(tmp_path, monkeypatch):
    for module in (importance, ranked_trials):
        monkeypatch.setattr(module, "MOST_WEIGHED", 30)
    caption, plot = importance.draw(Report(search(tmp_path / "x", 60)))
    assert plot.data[0].y[-1].startswith("lr ")
    assert caption.endswith("Of 59 trials 30 are weighed, evenly over their ranks.")
