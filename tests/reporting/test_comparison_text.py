"""Comparisons and confirmations as text."""

from confirmed import retrained, searched
from stories import search

from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.confirmation import Confirmation
from tuner.reporting.comparison_text import comparison_text, confirmation_text, verdict


def hyperopt(folder, seed, **how):
    space = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    return search(folder, 12, seed=seed, search=space, **how)


def test_comparison_text_has_a_line_for_each_strategy(tmp_path):
    random = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(2)]
    learned = [hyperopt(tmp_path / f"h{seed}", seed) for seed in range(2)]
    comparison = Comparison([*random, *learned])
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
        "STRATEGY  SEEDS  TRIALS  EPOCHS  TIME    BEST              AT 49 EPOCHS",
    ]
    assert [line.split()[:4] for line in lines[10:12]] == [
        [s, "2", "12", "49"] for s in (first, second)
    ]
    assert max(map(len, lines)) <= 80
    assert "note: search.space.momentum differs: " in shown


def test_verdict_without_paired_seeds_is_open(tmp_path):
    single = search(tmp_path / "r", 12, seed=0)
    *_, same = verdict(Comparison([single, hyperopt(tmp_path / "h0", 0)]))
    assert "with the one seed that both have, which says nothing about the spread" in same
    *_, other = verdict(Comparison([single, hyperopt(tmp_path / "h1", 1)]))
    assert "no seed in common" in other


def test_leaders_verdict_of_different_leaders_names_the_better(tmp_path):
    leaders = searched(tmp_path / "digits", {0.1: 0.90, 0.2: 0.95, 0.3: 0.93})
    values = [[0.70, 0.80, 0.90], [0.84, 0.85, 0.86], [0.91, 0.92, 0.93]]
    test = {"trial_id": "00000", "test_accuracy": 0.9}
    text = confirmation_text(Confirmation(retrained(leaders, values)), test)
    lines = text.splitlines()
    assert all(len(line) <= 80 or str(tmp_path) in line for line in lines)
    assert lines[0] == "digits: the 3 leaders retrained with 3 fresh seeds each, val_accuracy (max)"
    assert " ".join(lines[2].split()) == "TRIAL SEARCHED CONFIRMED SEEDS LESS THE FIRST APART"
    assert lines[3].split() == ["00000", "0.9", "0.92", "+-", "0.0058", "3"]
    assert lines[4].startswith("00002  0.93      0.85 +- 0.0058  3      -0.07 (-0.088 to -0.052)  ")
    assert (lines[4].split()[-1], lines[5].split()[-1]) == ("yes", "no")
    assert "Trial 00000 cannot be told apart from 00001, by the 95 % interval" in text
    assert "showed val_accuracy 0.95 and gives" in text
    assert "flattered it by 0.15." in text
    assert "Confirmed: trial 00000, its model of seed 4, epoch 2\n" in text
    assert "test_accuracy  0.9  (held-out test split)" in text
