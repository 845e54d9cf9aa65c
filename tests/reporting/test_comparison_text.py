"""Comparisons and confirmations as text."""

from confirmed import retrained, searched
from stories import search

from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.confirmation import Confirmation
from tuner.reporting.comparison_text import format_comparison, format_confirmation, format_verdict


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
            "\n".join(format_verdict(Comparison([single, hyperopt(tmp_path / f"h{seed}", seed)])))
        )


def test_leaders_verdict_of_different_leaders_names_the_better(snapshot, tmp_path):
    leaders = searched(tmp_path / "digits", {0.1: 0.90, 0.2: 0.95, 0.3: 0.93})
    values = [[0.70, 0.80, 0.90], [0.84, 0.85, 0.86], [0.91, 0.92, 0.93]]
    test = {"trial_id": "00000", "test_accuracy": 0.9}
    text = format_confirmation(Confirmation(retrained(leaders, values)), test)
    snapshot(text)
    assert all(len(line) <= 80 or str(tmp_path) in line for line in text.splitlines())
