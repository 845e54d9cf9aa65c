import pytest
from stories import odd, search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.figures import draw_section
from tuner.reporting.figures.figure import COLOURS


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
