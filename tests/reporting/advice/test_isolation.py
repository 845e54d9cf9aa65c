"""The answers to --ask."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import SPACE, around, losses, record

from tuner.errors import UsageError
from tuner.reporting.advice import isolation
from tuner.reporting.advice.isolation import compare_values, compute_best_weights
from tuner.spec.space.parsing import parse_space

SEARCH = {"strategy": "random", "space": {**SPACE, "kind": "choice(['a', 'b'])"}}


def test_isolation_examples_hold():
    assert doctest.testmod(isolation).failed == 0


@given(st.integers(1, 30), st.integers(1, 30))
def test_expected_best_weights_are_a_falling_distribution(n, m):
    weights = compute_best_weights(n, m).tolist()
    assert sum(weights) == pytest.approx(1)
    assert weights == pytest.approx(sorted(weights, reverse=True))


def test_ask_for_a_choice_finds_the_better_value():
    made = record(
        lambda u_D, rng: losses(1 + u_D[0] + (u_D[2] < 0.5)), 80, search=SEARCH
    )
    finding = compare_values(made, "kind")
    assert finding.severity == "low"
    assert (
        finding.command == "tuner run --like digits 'search.space.kind='\"'\"'b'\"'\"''"
    )
    worse, best = finding.figures["levels"]
    assert (best["value"], best["behind"]) == ("'b'", 0)
    assert worse["behind_interval"][0] > 0


def test_ask_for_a_useless_choice_asks_for_more_trials():
    made = record(lambda u_D, rng: losses(1 + u_D[0]), 40, search=SEARCH)
    finding = compare_values(made, "kind")
    assert finding.severity == "open"
    assert "cannot be told apart" in finding.meaning
    assert int(finding.command.rpartition(" ")[2]) >= 40


def test_ask_for_a_number_compares_quarters_that_cover_its_trials():
    finding = compare_values(record(around(0.1, 0.5), 80), "lr")
    levels = finding.figures["levels"]
    assert sum(level["n"] for level in levels) == 80
    assert min(levels, key=lambda level: level["expected_best"]) is levels[0]
    domains = [parse_space({"lr": level["value"]})["lr"] for level in levels]
    assert [d.upper for d in domains[:-1]] == [d.lower for d in domains[1:]]


def test_ask_for_an_unknown_name_lists_the_choices(snapshot):
    with snapshot.raises(UsageError):
        compare_values(record(around(0.5, 0.5)), "momentun")


def test_ask_of_few_trials_asks_for_more():
    assert compare_values(record(around(0.5, 0.5), 6), "lr").severity == "open"
