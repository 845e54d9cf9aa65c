from stories import search
from synthetic import Writer, make_folder

from tuner.experiment.events import COMPLETED, STOPPED, TRIAL_ENDED
from tuner.experiment.results.results import Results
from tuner.reporting.figures import forecasts
from tuner.reporting.figures._figure import draw_section
from tuner.reporting.report import Report


def forecast(end):
    return {"end": end, "low": end - 0.1, "high": end + 0.1, "chance": 0.5, "chance_of_new": 0.1}


def told(folder, *predicted):
    """A search of trials that ended at 0.9, with these predictions of them at epoch 2."""
    writer = Writer(make_folder(folder))
    for number, (status, end) in enumerate(predicted):
        trial_id = writer.trial(number, [0.1, 0.5, 0.9], end=None)
        made = {"2": forecast(end)}
        writer.add(TRIAL_ENDED, trial_id=trial_id, status=status, forecasts=made)
    writer.end()
    return Report(Results(folder))


def test_each_forecast_of_a_whole_trial_is_drawn_at_what_came_of_it(tmp_path):
    report = told(tmp_path / "x", (COMPLETED, 0.85), (COMPLETED, 0.4), (STOPPED, 0.2))
    caption, plot = forecasts.draw(report)
    assert caption.startswith("1 of 2 forecasts (50%) were right within one standard deviation")
    assert list(plot.data[0].x) == [0.85, 0.4]
    assert list(plot.data[0].y) == [0.9, 0.9]
    assert [epoch for _, epoch in plot.data[0].customdata] == ["2", "2"]


def test_without_a_whole_trial_it_says_so(tmp_path):
    caption, plot = forecasts.draw(told(tmp_path / "x", (STOPPED, 0.2)))
    assert (caption, plot) == (
        "Nothing to show: no end was predicted of a trial that came to it.",
        None,
    )


def test_it_is_shown_only_where_ends_were_predicted(tmp_path):
    without = draw_section("stopping", Report(search(tmp_path / "x", 9)))
    assert "forecasts" not in [one.name for one in without]
    shown = draw_section("stopping", told(tmp_path / "y", (COMPLETED, 0.85)))
    assert "forecasts" in [one.name for one in shown]
