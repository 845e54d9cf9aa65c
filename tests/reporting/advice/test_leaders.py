"""The findings on the leaders."""

import doctest

import numpy as np
import pytest
from confirmed import FOUND, retrained, searched
from recorded import around, losses, record

from tuner.reporting.advice import leaders
from tuner.reporting.advice.leaders import check_leaders, count_needed_seeds
from tuner.reporting.advice.record import SearchRecord


def kinds(made):
    return {finding.kind: finding for finding in check_leaders(made)}


def test_seeds_needed_have_the_power_that_they_promise():
    assert doctest.testmod(leaders).failed == 0
    n = count_needed_seeds(1.0, 0.8)
    rng = np.random.default_rng(0)
    differences = rng.normal(0.8, 2**0.5, (4000, n)).mean(axis=1)
    assert abs(np.mean(differences > 1.96 * (2 / n) ** 0.5) - 0.8) < 0.03


def test_leaders_that_noise_separates_are_to_be_confirmed():
    noisy = record(lambda u_D, rng: losses(1 + 0.1 * rng.normal()))
    finding = kinds(noisy)["unconfirmed"]
    assert finding.command.startswith("tuner confirm digits --top 5 --seeds ")
    assert "unconfirmed" not in kinds(record(around(0.5, 0.5)))


def test_leaders_of_a_confirmation_need_more_seeds_only_if_tied(tmp_path):
    results = searched(tmp_path / "digits", FOUND)
    retrained(results, [[0.90, 0.94, 0.92], [0.93, 0.91, 0.95]])
    finding = kinds(SearchRecord.build(results))["tied"]
    assert finding.figures["n"] == 3
    assert finding.figures["seeds"] > 3
    apart = searched(tmp_path / "apart", FOUND)
    retrained(apart, [[0.90, 0.901, 0.902], [0.80, 0.801, 0.802]])
    assert "tied" not in kinds(SearchRecord.build(apart))


def test_seeds_in_the_space_are_repetitions_of_a_config():
    space = {"lr": "choice([0.1, 0.2])", "seed": "choice([1, 2, 3])"}
    search = {"strategy": "random", "space": space}
    made = record(lambda u_D, rng: losses(1 + 0.1 * rng.normal()), 30, search=search)
    assert "repeated configs" in kinds(made)["tied"].seen


def accuracies(images, trials=40, *, spread=0.01, **changes):
    def metrics(u_D, rng):
        right = rng.binomial(images, 0.9 + spread * u_D[0])
        return [{"val_accuracy": right / images}] * 8

    objective = {"metric": "val_accuracy"}
    return record(
        metrics, trials, objective=objective, validation={"images": images}, **changes
    )


def test_small_validation_split_flatters_the_best():
    finding = kinds(accuracies(200))["validation_small"]
    low, high = finding.figures["interval"]
    assert low < 0.91 < high
    assert 0 < finding.figures["expected_drop"] < finding.figures["accuracy"] - 0.9
    assert "validation_small" not in kinds(accuracies(200_000))


@pytest.mark.parametrize(
    ("strategy", "is_raised"), [("random", True), ("bayesopt", False)]
)
def test_leaders_of_a_search_that_learns_are_alike(strategy, is_raised):
    search = {"strategy": strategy, "space": {"lr": "uniform(0, 1)"}}
    made = accuracies(10_000, spread=0.0, search=search)
    assert ("validation_small" in kinds(made)) == is_raised


def test_test_split_that_was_measured_twice_is_named():
    made = record(around(0.5, 0.5), tested=("00001", "00004"))
    assert kinds(made)["test_reused"].severity == "high"
    assert "test_reused" not in kinds(record(around(0.5, 0.5), tested=("00001",)))
