import pytest
from stories import odd, search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.figures import best, draw_section
from tuner.reporting.figures.figure import COLOURS
from tuner.reporting.report import Report

MEMORY = {"metric": "peak_memory_mib", "mode": "min"}


def test_history_best_so_far_only_rises(tmp_path):
    caption, plot = best.history(Report(search(tmp_path / "x", 12)))
    dots, line = plot.data[:2]
    assert list(line.y) == sorted(line.y)
    assert line.y[-1] == max(dots.y)
    after = 11 - 1 - list(dots.y).index(max(dots.y))
    assert f"{after} after the best one brought nothing better" in caption


def test_history_of_many_trials_draws_every_new_best(tmp_path, monkeypatch):
    report = Report(search(tmp_path / "x", 40))
    _, whole = best.history(report)
    monkeypatch.setattr(best, "_MOST_POINTS", 5)
    caption, thinned = best.history(report)
    assert 5 <= len(thinned.data[0].x) < 39
    assert f"Of 39 trials {len(thinned.data[0].x)} are drawn" in caption
    for before, after in zip(whole.data, thinned.data, strict=True):
        points = set(zip(before.x, before.y, strict=True))
        assert points >= set(zip(after.x, after.y, strict=True))
    assert set(thinned.data[1].y) == set(whole.data[1].y)


@pytest.mark.parametrize(("trials", "tick"), [(4, 1), (40, None)])
def test_history_of_few_trials_has_a_tick_for_each(tmp_path, trials, tick):
    _, plot = best.history(Report(search(tmp_path / "x", trials)))
    assert plot.layout.xaxis.dtick == tick


def figures_of(folder, *others):
    objective = {"metric": "val_accuracy", "mode": "max", "others": others}
    results = search(folder, objective=objective)
    return results, {figure.name: figure for figure in draw_section("best", Report(results))}


def test_front_and_volume_are_drawn_of_several_objectives(tmp_path):
    results, figures = figures_of(tmp_path / "x", MEMORY)
    *by_status, line = figures["front"].plot.data
    assert [trace.name for trace in by_status] == ["completed", "stopped", "failed"]
    assert sum(len(trace.x) for trace in by_status) == len(results.trials)
    assert list(line.text) == [trial.trial_id for trial in results.front]
    assert line.mode == "lines+markers"
    volumes = list(figures["volume"].plot.data[0].y)
    assert volumes == sorted(volumes)
    assert 0 < volumes[-1] < 1.001


def test_front_names_the_third_objective_and_the_page_of_one_does_without(tmp_path):
    speed = {"metric": "images_per_s", "mode": "max"}
    _, figures = figures_of(tmp_path / "three", MEMORY, speed)
    assert "The third objective, images_per_s, is not drawn" in figures["front"].caption
    assert figures["front"].plot.data[-1].mode == "markers"
    _, figures = figures_of(tmp_path / "one")
    assert not {"front", "volume"} & figures.keys()


def test_comparison_draws_a_line_and_a_band_for_each_strategy(tmp_path):
    space = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    results = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(3)]
    results.append(search(tmp_path / "h", 20, search=space))
    comparison = Comparison(results)
    index = [side.strategy for side in comparison.sides].index("random")
    (figure,) = draw_section("comparison", comparison)
    assert figure.name == "epochs"
    low, high, mean = (t for t in figure.plot.data if t.line.color == COLOURS[index])
    assert mean.name == "random (3 seeds)"
    assert all(a <= b <= c for a, b, c in zip(low.y, mean.y, high.y, strict=True))
    assert list(mean.y) == sorted(mean.y)
    assert mean.y[-1] == pytest.approx(comparison.sides[index].best.mean)
    (single,) = (t for t in figure.plot.data if t.line.color != COLOURS[index])
    assert single.name == "hyperopt (1 seed)"
    assert single.line.dash != mean.line.dash


def test_comparison_bounds_outliers_and_leaves_out_failed_searches(tmp_path):
    experiments = [odd(tmp_path / "x", "diverged"), odd(tmp_path / "y", "diverged")]
    (figure,) = draw_section("comparison", Comparison(experiments))
    assert figure.plot.layout.yaxis.range[1] < 1e29
    failed = Comparison([search(tmp_path / "a", 6), odd(tmp_path / "b", "all_failed")])
    (only,) = draw_section("comparison", failed)[0].plot.data
    assert only.name == "random (a) (1 seed)"
