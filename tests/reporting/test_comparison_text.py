"""Comparisons as text."""

from stories import search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.comparison_text import format_comparison, format_verdict


def hyperopt(folder, seed, **how):
    space = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    return search(folder, 12, seed=seed, search=space, **how)


def test_comparison_text_has_a_line_for_each_strategy(snapshot, tmp_path):
    random = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(2)]
    learned = [hyperopt(tmp_path / f"h{seed}", seed) for seed in range(2)]
    shown = format_comparison(Comparison([*random, *learned]))
    snapshot(shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_verdict_without_paired_seeds_is_open(snapshot, tmp_path):
    single = search(tmp_path / "r", 12, seed=0)
    for seed in (0, 1):
        snapshot(
            "\n".join(
                format_verdict(
                    Comparison([single, hyperopt(tmp_path / f"h{seed}", seed)])
                )
            )
        )
