"""What retrained leaders show: who is chosen, and what can be told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confirmed import FOUND, retrained, searched

from tuner.errors import NoUsableTrialError
from tuner.results.best import best_json
from tuner.results.confirmation import Confirmation
from tuner.results.confirmations import confirmation_of
from tuner.results.results import Results


@pytest.fixture
def search(tmp_path: Path) -> Results:
    return searched(tmp_path / "digits", FOUND)


def test_the_best_mean_is_chosen_and_its_best_model_handed_over(search: Results) -> None:
    retrained(search, [[0.88, 0.90, 0.86], [0.91, 0.94, 0.92], [0.80, 0.81, 0.82]])
    found = confirmation_of(search)
    assert found is not None
    assert [leader.trial_id for leader in found.leaders] == ["00002", "00001", "00000"]
    assert found.chosen.mean is not None
    assert found.chosen.mean.mean == pytest.approx(0.92333, abs=1e-4)
    assert found.chosen.optimism == pytest.approx(0.93 - 0.92333, abs=1e-4)
    assert (found.trial.trial_id, found.trial.seed) == ("00004", 3)  # the search's seed is 1
    best = found.best_json()
    assert {key: best[key] for key in ("trial_id", "config", "epoch", "metrics", "shown")} == {
        "trial_id": "00002",
        "config": {"lr": 0.3},
        "epoch": 2,
        "metrics": {"val_accuracy": 0.94},
        "shown": "confirmed",
    }
    assert Path(best["checkpoint"]).read_bytes() == b"weights of 00004"
    assert found.first_searched.trial_id == "00001"


def test_differences_are_paired_by_seed(search: Results) -> None:
    # Seeds differ more than leaders do: only their pairs tell the leaders apart.
    retrained(search, [[0.70, 0.80, 0.90], [0.72, 0.82, 0.921], [0.719, 0.825, 0.916]])
    found = confirmation_of(search)
    assert found is not None
    first, second, third = found.leaders
    assert (first.trial_id, second.trial_id, third.trial_id) == ("00002", "00000", "00001")
    assert first.difference is None
    assert second.difference is not None
    assert third.difference is not None
    assert (second.difference.is_settled, third.difference.is_settled) == (False, True)
    assert third.difference.mean == pytest.approx(-0.02033, abs=1e-4)
    assert not found.told_apart
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert [one["trial_id"] for one in told["leaders"]] == ["00002", "00000", "00001"]
    assert told["leaders"][0]["values"] == {"2": 0.72, "3": 0.82, "4": 0.921}
    assert told["leaders"][1]["difference"]["told_apart"] is False
    assert (told["chosen"], told["seeds"], told["name"]) == ("00002", [2, 3, 4], "digits")


def test_a_leader_that_fails_with_a_seed_comes_after_those_that_do_not(search: Results) -> None:
    retrained(search, [[0.99, None], [0.5, 0.6], [None, None]])
    found = confirmation_of(search)
    assert found is not None
    assert [leader.trial_id for leader in found.leaders] == ["00002", "00001", "00000"]
    assert [len(leader.values) for leader in found.leaders] == [2, 1, 0]
    last = found.leaders[2]
    assert (last.mean, last.optimism, last.difference) == (None, None, None)
    assert len(best_json(search, top=3)) == 3


def test_one_seed_settles_nothing(search: Results) -> None:
    retrained(search, [[0.9], [0.5]])
    found = confirmation_of(search)
    assert found is not None
    assert not found.told_apart
    assert found.chosen.mean is not None
    assert found.chosen.mean.standard_error is None


def test_where_all_fail_nothing_is_confirmed(search: Results) -> None:
    results = retrained(search, [[None, None]])
    with pytest.raises(NoUsableTrialError, match="none of the retrained trials completed"):
        Confirmation(results)
    assert confirmation_of(search) is None
