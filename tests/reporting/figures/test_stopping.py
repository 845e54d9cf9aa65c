from stories import odd, search
from synthetic import Writer, make_folder

from tuner.reporting.figures import stopping
from tuner.reporting.report import Report


def draw(results):
    return stopping.curves(Report(results))


def test_curves_are_grouped_by_status(tmp_path):
    results = search(tmp_path / "x", 12)
    caption, plot = draw(results)
    assert len(plot.data) == 12
    groups = [trace.legendgroup for trace in plot.data]
    assert sorted(set(groups)) == ["completed", "failed", "stopped", "the best trial"]
    shown = [trace.legendgroup for trace in plot.data if trace.showlegend]
    assert len(shown) == len(set(shown)) == 4
    best = plot.data[groups.index("the best trial")]
    assert f"trial {results.get_best_trial().trial_id}," in best.hovertemplate
    assert [shape.x0 for shape in plot.layout.shapes] == [1, 2, 4, 8]
    assert "at epoch 1, 2, 4, 8" in caption


def test_curves_leave_out_some_of_many_and_outliers(tmp_path):
    caption, plot = draw(search(tmp_path / "x", 150))
    assert len(plot.data) == 100
    assert "Of 150 curves 100 are drawn" in caption
    assert "the best trial" in {trace.name for trace in plot.data}
    caption, plot = draw(odd(tmp_path / "y", "diverged"))
    assert plot.layout.yaxis.range[1] < 10
    assert "lie outside the picture" in caption


def test_curves_show_every_trial_beside_a_long_one(tmp_path):
    writer = Writer(make_folder(tmp_path / "x", objective={"metric": "val_loss", "mode": "min"}))
    writer.trial(0, [{"val_loss": value} for value in (1.1, *[0.2] * 9)])
    for number, loss in enumerate([0.3, 1.8, 2.1], 1):
        writer.trial(number, [{"val_loss": loss}], end="stopped")
    writer.end()
    caption, plot = draw(writer.results)
    assert plot.layout.yaxis.range is None
    assert "outside" not in caption
    assert plot.layout.xaxis.dtick == 1
    *short, long = sorted(plot.data, key=lambda trace: len(trace.x))
    assert {trace.marker.size for trace in short} == {7}
    assert long.marker.size == 4


def test_rungs_show_stopped_trials(tmp_path):
    results = search(tmp_path / "x", 12)  # 8 of the 12 are run to their end or fail
    caption, plot = stopping.rungs(Report(results))
    went_on, stopped = plot.data
    assert list(went_on.x) == ["1", "2", "4", "8"]
    assert list(stopped.y) == [7, 0, 0, 0]
    assert list(went_on.y) == [5, 5, 4, 4]
    assert caption == "Most trials were stopped at epoch 1: 7 of the 12 that reached it."
