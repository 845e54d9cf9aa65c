from stories import odd, search

from tuner.reporting.figures import curves
from tuner.reporting.report import Report


def draw(results):
    return curves.draw(Report(results))


def test_each_trial_has_its_curve_of_its_status(tmp_path):
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


def test_many_curves_are_thinned_out_and_that_is_said(tmp_path):
    caption, plot = draw(search(tmp_path / "x", 150))
    assert len(plot.data) == 100
    assert "Of 150 curves 100 are drawn" in caption
    assert "the best trial" in {trace.name for trace in plot.data}


def test_what_lies_far_out_does_not_squeeze_the_others(tmp_path):
    caption, plot = draw(odd(tmp_path / "x", "diverged"))
    assert plot.layout.yaxis.range[1] < 10
    assert "lie outside the picture" in caption


def test_nothing_to_show_says_why(tmp_path):
    caption, plot = draw(odd(tmp_path / "x", "no_report"))
    assert (caption, plot) == ("Nothing to show: no trial reported val_accuracy.", None)


def test_failed_trials_have_curves_though_none_is_best(tmp_path):
    _, plot = draw(odd(tmp_path / "x", "all_failed"))
    assert {trace.legendgroup for trace in plot.data} == {"failed"}
