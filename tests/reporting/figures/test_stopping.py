from stories import odd, search
from synthetic import Writer, make_folder

from tuner.reporting.figures import stopping
from tuner.reporting.figures.data import FigureData
from tuner.reporting.figures.figure import BLACK


def draw(results, metric=None):
    return stopping.curves(FigureData(results), metric)


def count_curves(trace):
    return trace["x"].count(None) + 1


def test_curves_are_grouped_by_status(tmp_path):
    results = search(tmp_path / "x", 12)
    caption, plot = draw(results)
    *groups, best = plot["data"]
    assert sorted({trace["name"] for trace in groups}) == ["completed", "failed", "stopped"]
    assert [trace["name"] for trace in groups if trace["showlegend"]] == list(
        dict.fromkeys(trace["name"] for trace in groups)
    )
    ids = [trial_id for trace in plot["data"] for trial_id in trace["meta"]]
    assert sorted(ids) == [*results.trials]
    assert all(count_curves(trace) == len(trace["meta"]) for trace in plot["data"])
    assert best["name"] == "the best trial"
    assert best["meta"] == [results.get_best_trial().trial_id]
    assert best["line"]["color"] == BLACK
    assert [shape["x0"] for shape in plot["layout"]["shapes"]] == [1, 2, 4, 8]
    assert "at epoch 1, 2, 4, 8" in caption


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
    assert sum(map(count_curves, plot["data"])) == 100
    assert "Of 150 curves 100 are drawn" in caption
    whole = next(trace for trace in groups if trace["name"] == "completed")
    curve = whole["x"][: whole["x"].index(None)]
    assert curve == [1, 5, 10]  # 3 points, the ends among them
    assert best["x"] == [*range(1, 11)]


def test_curves_leave_out_outliers(tmp_path):
    caption, plot = draw(odd(tmp_path / "y", "diverged"))
    assert plot["layout"]["yaxis"]["range"][1] < 10
    assert "lie outside the picture" in caption


def test_curves_show_every_trial_beside_a_long_one(tmp_path):
    writer = Writer(make_folder(tmp_path / "x", objective={"metric": "val_loss", "mode": "min"}))
    writer.trial(0, [{"val_loss": value} for value in (1.1, *[0.2] * 9)])
    for number, loss in enumerate([0.3, 1.8, 2.1], 1):
        writer.trial(number, [{"val_loss": loss}], end="stopped")
    writer.end()
    caption, plot = draw(writer.results)
    assert "range" not in plot["layout"]["yaxis"]
    assert "outside" not in caption
    assert plot["layout"]["xaxis"]["dtick"] == 1
    short, _ = plot["data"]
    assert (short["mode"], short["marker"]["size"]) == ("lines+markers", 6)


def test_rungs_show_stopped_trials(tmp_path):
    results = search(tmp_path / "x", 12)  # 8 of the 12 are run to their end or fail
    caption, plot = stopping.rungs(FigureData(results))
    went_on, stopped = plot["data"]
    assert went_on["x"] == ["1", "2", "4", "8"]
    assert stopped["y"] == [7, 0, 0, 0]
    assert went_on["y"] == [5, 5, 4, 4]
    assert caption == "Most trials were stopped at epoch 1: 7 of the 12 that reached it."
