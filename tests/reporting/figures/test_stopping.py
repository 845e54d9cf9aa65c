import re
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import interrupted, odd, search
from synthetic import Writer, make_folder

from tuner.experiment.trials import Run, TrialRecord
from tuner.reporting.figures import stopping
from tuner.reporting.figures.data import FigureData


def draw(results, metric=None):
    return stopping.draw_learning_curves(FigureData(results), metric)


def test_curves_are_grouped_by_status(snapshot, tmp_path):
    results = search(tmp_path / "x", 12)
    snapshot.compare_value(draw(results))
    _, plot = draw(results)
    ids = [trial_id for trace in plot["data"] for trial_id in trace["meta"]]
    assert sorted(ids) == [*results.trials]


def test_curves_show_another_metric(tmp_path):
    results = search(tmp_path / "x", 12)
    _, plot = draw(results, "images_per_s")
    assert plot["layout"]["yaxis"]["title"]["text"] == "images_per_s"
    assert {y for trace in plot["data"] for y in trace["y"]} == {5000.0, None}
    assert draw(results, "loss") == ("Nothing to show: no trial reported loss.", None)


def test_curves_of_many_trials_are_thinned(tmp_path, monkeypatch):
    results = search(tmp_path / "x", 150)
    monkeypatch.setattr(stopping, "_MOST_CURVES", 100)
    monkeypatch.setattr(stopping, "_MOST_POINTS", 300)
    caption, plot = draw(results)
    *groups, best = plot["data"]
    assert sum(trace["x"].count(None) + 1 for trace in plot["data"]) == 100
    assert "Of 150 curves 100 are drawn" in caption
    whole = next(trace for trace in groups if trace["name"] == "completed")
    curve = whole["x"][: whole["x"].index(None)]
    assert curve == [1, 5, 10]  # 3 points, the ends among them
    assert best["x"] == [*range(1, 11)]


def test_curves_leave_out_outliers(tmp_path):
    caption, plot = draw(odd(tmp_path / "y", "diverged"))
    assert plot["layout"]["yaxis"]["range"][1] < 10
    assert "lie outside the picture" in caption


def test_curves_show_every_trial_beside_a_long_one(snapshot, tmp_path):
    writer = Writer(make_folder(tmp_path / "x", metric="val_loss", mode="min"))
    writer.trial(0, [{"val_loss": value} for value in (1.1, *[0.2] * 9)])
    for number, loss in enumerate([0.3, 1.8, 2.1], 1):
        writer.trial(number, [{"val_loss": loss}], end="stopped")
    writer.end()
    snapshot.compare_value(draw(writer.results))


def test_rungs_show_stopped_trials(snapshot, tmp_path):
    results = search(tmp_path / "x", 12)  # 8 of the 12 are run to their end or fail
    snapshot.compare_value(stopping.draw_rung_counts(FigureData(results)))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=8)
)
def test_slots_are_those_that_trials_ran_in(tmp_path_factory, spans):
    """The area is the time of all trials, and the height what counting at each second finds."""
    writer = Writer(make_folder(tmp_path_factory.mktemp("x") / "x"))
    writer.end()
    results = writer.results
    start = results.history.runs[0].started
    results.history.runs = [Run(start, start + 100)]
    for number, (begin, length) in enumerate(spans):
        run = Run(start + begin, start + begin + length)
        results.history.trials[f"{number:05}"] = TrialRecord(
            f"{number:05}", start, runs=[run]
        )
    caption, plot = stopping.draw_slots(FigureData(results))
    used, level = plot["data"]
    end = max(begin + length for begin, length in spans)
    counts = [sum(b <= at < b + length for b, length in spans) for at in range(end)]
    assert level["y"][0] == max(counts)
    assert max(used["y"]) <= max(counts) + 1e-3
    mean = sum(used["y"][:-1]) / len(used["y"][:-1])
    assert mean == pytest.approx(sum(counts) / end, rel=1e-3)
    idle = int(re.search(r"(\d+)% of this room was idle", caption)[1])
    assert idle == pytest.approx(100 - 100 * sum(counts) / end / max(counts), abs=0.6)


def test_slots_leave_out_the_time_between_two_runs_and_count_gpus(tmp_path):
    results = interrupted(
        tmp_path / "x", resources={"cpus": 1, "gpus": 2, "workers": 2}
    )
    caption, plot = stopping.draw_slots(FigureData(results))
    assert plot["data"][0]["x"][-1] < 60
    assert caption.startswith("GPUs at a time: 4 at most")


def test_trial_stands_beside_the_best_and_the_median(snapshot, tmp_path):
    results = search(tmp_path / "x", 12)
    data = FigureData(results)
    best = results.get_best_trial().trial_id
    snapshot.compare_value(stopping.draw_trial_curve(data, "00000"))
    snapshot.compare_value(stopping.draw_trial_curve(data, best)[0])
    assert stopping.draw_trial_curve(data, best, "loss")[1] is None
    curves = [
        dict(trial.list_values("val_accuracy")) for trial in results.trials.values()
    ]
    middle = stopping.draw_trial_curve(data, best)[1]["data"][0]
    for epoch, value in zip(middle["x"], middle["y"], strict=True):
        assert value == pytest.approx(
            median(c[epoch] for c in curves if epoch in c), rel=1e-5
        )
