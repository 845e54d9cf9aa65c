import pytest
from stories import interrupted, odd, search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.figures import best, draw_comparison, draw_section
from tuner.reporting.figures.data import FigureData

OTHERS = {
    "one objective": [],
    "two": [{"metric": "peak_memory_mib", "mode": "min"}],
    "three": [{"metric": "peak_memory_mib", "mode": "min"}, {"metric": "images_per_s"}],
}


def history(results, by="trial"):
    """The caption, the dots, the line and the layout."""
    caption, plot = best.draw_history(FigureData(results), by)
    dots, line = plot["data"]
    return caption, dots, line, plot["layout"]


@pytest.mark.parametrize("by", ["trial", "epochs", "time"])
def test_history_best_so_far_only_rises(snapshot, tmp_path, by):
    caption, plot = best.draw_history(FigureData(search(tmp_path / "x", 12)), by)
    dots, line = plot["data"]
    assert line["y"] == sorted(line["y"])
    assert line["x"] == sorted(line["x"])
    assert line["y"][-1] == max(dots["y"])
    snapshot.compare_value((caption, plot))


def test_history_by_time_leaves_out_what_lies_between_two_runs(tmp_path):
    _, dots, *_ = history(interrupted(tmp_path / "x"), "time")
    assert dots["x"][1] - dots["x"][0] < 60


def test_history_of_many_trials_draws_every_new_best(tmp_path, monkeypatch):
    results = search(tmp_path / "x", 40)
    _, *whole, _ = history(results)
    monkeypatch.setattr(best, "_MOST_POINTS", 5)
    caption, *thinned, _ = history(results)
    assert 5 <= len(thinned[0]["x"]) < 39
    assert f"Of 39 trials {len(thinned[0]['x'])} are drawn" in caption
    for before, after in zip(whole, thinned, strict=True):
        points = set(zip(before["x"], before["y"], strict=True))
        assert points >= set(zip(after["x"], after["y"], strict=True))
    assert set(thinned[1]["y"]) == set(whole[1]["y"])


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_front_and_volume_are_drawn_of_several_objectives(snapshot, tmp_path, others):
    objective = {"metric": "val_accuracy", "mode": "max", "others": others}
    data = FigureData(search(tmp_path / "x", 12, objective=objective))
    figures = {figure.name: figure for figure in draw_section("best", data)}
    assert ("front" in figures, "volume" in figures) == (bool(others), bool(others))
    if others:
        front = figures["front"]
        snapshot.compare_value((front.caption, front.plot["data"]))
        volumes = figures["volume"].plot["data"][0]["y"]
        assert volumes == sorted(volumes)
        assert 0 < volumes[-1] < 1.001


def test_comparison_draws_a_line_and_a_band_for_each_strategy(snapshot, tmp_path):
    space = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    results = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(3)]
    results.append(search(tmp_path / "h", 20, search=space))
    comparison = Comparison(results)
    figures = draw_comparison(comparison)
    single, low, high, mean = figures[0].plot["data"]
    assert all(
        a <= b <= c for a, b, c in zip(low["y"], mean["y"], high["y"], strict=True)
    )
    assert mean["y"] == sorted(mean["y"])
    best_means = [side.best.mean for side in comparison.sides]
    assert sorted([mean["y"][-1], single["y"][-1]]) == pytest.approx(sorted(best_means))
    for figure in figures:
        snapshot.compare_value((figure.name, figure.caption, figure.plot["data"]))


def test_comparison_bounds_outliers_and_leaves_out_failed_searches(tmp_path):
    experiments = [odd(tmp_path / "x", "diverged"), odd(tmp_path / "y", "diverged")]
    figure, *_ = draw_comparison(Comparison(experiments))
    assert figure.plot["layout"]["yaxis"]["range"][1] < 1e29
    failed = Comparison([search(tmp_path / "a", 6), odd(tmp_path / "b", "all_failed")])
    (only,) = draw_comparison(failed)[0].plot["data"]
    assert only["name"] == "random (a) (1 seed)"
