import re

import pytest
from stories import odd, search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.comparison_text import comparison_text, verdict


def hyperopt(folder, seed, **how):
    space = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    return search(folder, 12, seed=seed, search=space, **how)


@pytest.fixture
def comparison(tmp_path):
    random = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(2)]
    return Comparison([*random, *(hyperopt(tmp_path / f"h{seed}", seed) for seed in range(2))])


def test_strategies_have_a_line_in_each_table(comparison):
    shown = comparison_text(comparison)
    first, second = (side.strategy for side in comparison.sides)
    lines = shown.splitlines()
    assert lines[0] == f"{first} and {second} by val_accuracy (max), 4 experiments"
    head = ["NAME", "STRATEGY", "SEED", "TRIALS", "EPOCHS", "TIME", "BEST"]
    assert lines[2].split() == head
    names = [entrant.name for side in comparison.sides for entrant in side.entrants]
    assert [line.split()[0] for line in lines[3:7]] == names
    assert lines[8:10] == [
        "On average over the seeds",
        "STRATEGY  SEEDS  TRIALS  EPOCHS  TIME    BEST",
    ]
    assert [line.split()[:4] for line in lines[10:12]] == [
        [s, "2", "12", "49"] for s in (first, second)
    ]
    assert re.split("  +", lines[14]) == ["STRATEGY", "AT 12 TRIALS", "AT 49 EPOCHS", "AT 1M 14S"]
    assert max(map(len, lines)) <= 80
    assert "note: search.space.momentum differs: " in shown


def test_of_three_strategies_the_choice_of_the_best_is_counted_in(tmp_path):
    space = {"strategy": "bohb", "space": {"lr": "loguniform(0.001, 1)"}}
    others = [hyperopt(tmp_path / "h", 0), search(tmp_path / "b", 12, search=space)]
    *_, last = verdict(Comparison([search(tmp_path / "r", 12), *others]))
    assert last == "The intervals count in that it is the best of 3 strategies."


def test_equal_strategies_cannot_be_told_apart(comparison):
    ahead, beside = verdict(comparison)  # the same trials by another name
    assert ahead == f"After 49 epochs {comparison.sides[0].strategy} is ahead."
    assert "cannot be told apart from it: 0 behind, -0.012 to +0.012 by the 95 % interval" in beside


def test_one_seed_or_none_in_common_tells_nothing(tmp_path):
    one = search(tmp_path / "r", 12, seed=0)
    *_, same = verdict(Comparison([one, hyperopt(tmp_path / "h0", 0)]))
    assert "with the one seed that both have, which says nothing about the spread" in same
    *_, other = verdict(Comparison([one, hyperopt(tmp_path / "h1", 1)]))
    assert "no seed in common" in other


def test_one_strategy_alone_shows_its_seeds(tmp_path):
    results = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(3)]
    assert list(verdict(Comparison(results))) == [
        "All are of one strategy, random: their spread is that of the seed."
    ]


def test_one_without_a_value_says_none(tmp_path):
    failed = odd(tmp_path / "failed", "all_failed")
    shown = comparison_text(Comparison([failed, hyperopt(tmp_path / "h", 0)]))
    best, equal, *_ = (line for line in shown.splitlines() if line.startswith("random "))
    assert best.endswith("none")
    assert equal.split()[1:] == ["none"] * 3
    assert shown.startswith("hyperopt and random by ")
