from stories import odd, search

from tuner.reporting.comparable import comparable
from tuner.reporting.figures.progress import progress_figures
from tuner.reporting.study import study_of


def figures_of(results, rungs=()):
    study = study_of(results)
    history, curves = progress_figures(results, study, comparable(results, study), rungs)
    return history, curves


def test_the_best_so_far_only_rises(tmp_path):
    history, _ = figures_of(search(tmp_path / "x", 12))
    dots, line = history.plot.data[:2]
    assert list(line.y) == sorted(line.y)
    assert line.y[-1] == max(dots.y)
    after = 11 - 1 - list(dots.y).index(max(dots.y))
    assert f"{after} after the best one brought nothing better" in history.says


def test_each_trial_has_its_curve_of_its_status(tmp_path):
    results = search(tmp_path / "x", 12)
    _, curves = figures_of(results, rungs=[1, 2, 4, 8])
    assert len(curves.plot.data) == 12
    groups = [trace.legendgroup for trace in curves.plot.data]
    assert sorted(set(groups)) == ["completed", "failed", "stopped", "the best trial"]
    shown = [trace.legendgroup for trace in curves.plot.data if trace.showlegend]
    assert len(shown) == len(set(shown)) == 4
    best = curves.plot.data[groups.index("the best trial")]
    assert f"trial {results.get_best_trial().trial_id}," in best.hovertemplate
    assert [shape.x0 for shape in curves.plot.layout.shapes] == [1, 2, 4, 8]
    assert "at epoch 1, 2, 4, 8" in curves.says


def test_many_curves_are_thinned_out_and_that_is_said(tmp_path):
    results = search(tmp_path / "x", 150)
    _, curves = figures_of(results)
    assert len(curves.plot.data) == 100
    assert "Of 150 curves 100 are drawn" in curves.says
    assert "the best trial" in {trace.name for trace in curves.plot.data}


def test_what_lies_far_out_does_not_squeeze_the_others(tmp_path):
    _, curves = figures_of(odd(tmp_path / "x", "diverged"))
    assert curves.plot.layout.yaxis.range[1] < 10
    assert "lie outside of the picture" in curves.says


def test_nothing_to_show_says_why(tmp_path):
    history, curves = figures_of(odd(tmp_path / "x", "no_report"))
    assert (history.plot, curves.plot) == (None, None)
    assert "no trial that did not fail has a value" in history.says
    assert curves.says == "Nothing to show: no trial reported val_accuracy."


def test_failed_trials_have_curves_though_none_is_best(tmp_path):
    history, curves = figures_of(odd(tmp_path / "x", "all_failed"))
    assert history.plot is None
    assert {trace.legendgroup for trace in curves.plot.data} == {"failed"}
