"""What a confirmation reads like: 80 columns, and plain words on what can be told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from confirmed import retrained, searched

from tuner.experiment.results.confirmation import Confirmation
from tuner.experiment.results.results import Results
from tuner.reporting.confirmation_text import confirmation_text

FOUND = {0.1: 0.90, 0.2: 0.95, 0.3: 0.93}


@pytest.fixture
def search(tmp_path: Path) -> Results:
    return searched(tmp_path / "digits", FOUND)


def text_of(search: Results, values: list[list[float | None]]) -> str:
    text = confirmation_text(
        Confirmation(retrained(search, values)), {"trial_id": "00000", "test_accuracy": 0.9}
    )
    assert all(len(line) <= 80 or str(search.folder.parent) in line for line in text.splitlines())
    return text


def test_leaders_that_can_be_told_apart(search: Results) -> None:
    text = text_of(search, [[0.70, 0.80, 0.90], [0.84, 0.85, 0.86], [0.91, 0.92, 0.93]])
    lines = text.splitlines()
    assert lines[0] == "digits: the 3 leaders retrained with 3 fresh seeds each, val_accuracy (max)"
    assert lines[2].split() == [
        "TRIAL",
        "SEARCHED",
        "CONFIRMED",
        "SEEDS",
        "LESS",
        "THE",
        "FIRST",
        "APART",
    ]
    assert lines[3].split() == ["00000", "0.9", "0.92", "+-", "0.0058", "3"]
    assert lines[4].startswith("00002  0.93      0.85 +- 0.0058  3      -0.07 (-0.088 to -0.052)  ")
    assert (lines[4].split()[-1], lines[5].split()[-1]) == ("yes", "no")
    assert "Trial 00000 cannot be told apart from 00001, by the 95 % interval" in text
    assert "The intervals count in that it is the best of 3.\n" in text
    assert "showed val_accuracy 0.95 and gives" in text
    assert "flattered it by 0.15." in text
    assert "Confirmed: trial 00000, its model of seed 4, epoch 2\n" in text
    assert "test_accuracy  0.9  (held-out test split)" in text


def test_one_that_is_better_than_the_others(search: Results) -> None:
    text = text_of(search, [[0.97, 0.98, 0.99], [0.90, 0.91, 0.92]])
    assert "Trial 00001 is better than the others" in text
    assert "the best of" not in text
    assert "the search did not flatter it." in " ".join(text.split())


def test_what_the_seeds_cannot_tell(search: Results) -> None:
    assert "One seed tells nothing of the spread" in text_of(search, [[0.9], [0.8]])
    assert "No result depends on the seed" in text_of(search, [[0.9, 0.9], [0.8, 0.8]])
    text = text_of(search, [[None, None], [0.8, 0.7]])
    assert "The search's best, trial 00001, failed with every fresh seed." in text
    assert "all failed" in text
    assert "\n\nFailed trials\n  2 nan, first trial 00000\n    m\n" in text
