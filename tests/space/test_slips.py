"""Constants that were likely meant as domains."""

from __future__ import annotations

from typing import Any

import pytest
from ray import tune

from tuner.space.domains import constant
from tuner.space.parsing import parse_domain, parse_space
from tuner.space.slips import slips


def meant(value: object) -> tuple[str, ...]:
    """The domains that are offered for a hyperparameter written so; each can be written."""
    found = list(slips(parse_space({"a": value})))
    texts = found[0].meant if found else ()
    for text in texts:
        parse_domain(text)
    assert len(found) <= 1
    return texts


@pytest.mark.parametrize(
    ("value", "domains"),
    [
        ([16, 32, 64], ("choice([16, 32, 64])",)),
        (["sgd", "adamw"], ("choice(['sgd', 'adamw'])",)),
        ([0.1], ("choice([0.1])",)),
        ([0.1, 0.01], ("choice([0.1, 0.01])",)),
        ((0.5, 0.9), ("choice([0.5, 0.9])", "uniform(0.5, 0.9)")),
        ((1e-4, 1e-1), ("choice([0.0001, 0.1])", "loguniform(0.0001, 0.1)")),
        ([0, 5], ("choice([0, 5])", "randint(0, 6)")),
        ([True, False], ("choice([True, False])",)),
        ([{"kind": "a"}, {"kind": "b"}], ("choice([{'kind': 'a'}, {'kind': 'b'}])",)),
        ({"min": 0.5, "max": 0.9}, ("uniform(0.5, 0.9)",)),
        ({"min": 1, "max": 5}, ("randint(1, 6)",)),
        ({"low": 0.1, "high": 1.0, "log": True}, ("loguniform(0.1, 1.0)",)),
        ({"lower": 0, "upper": 1, "step": 0.25}, ("quniform(0, 1, 0.25)",)),
        (
            {"distribution": "log_uniform_values", "min": 1e-3, "max": 1e-2},
            ("loguniform(0.001, 0.01)",),
        ),
        ({"values": [1, 2]}, ("choice([1, 2])",)),
    ],
)
def test_what_others_write_for_a_domain(value: object, domains: tuple[str, ...]) -> None:
    assert meant(value) == domains


@pytest.mark.parametrize(
    "value",
    [
        0.1,
        "sgd",
        None,
        [],
        {"min": 1},
        {"min": 2.0, "max": 1.0},
        {"min": 0, "max": 1, "kernel": "rbf"},
        {"min": "uniform(0, 1)", "max": 2},
        {"min": True, "max": False},
        constant([1, 2]),
        "constant({'min': 1, 'max': [2]})",
        "choice([[1, 2], [3, 4]])",
        "choice([{'min': 1, 'max': 2}, {'min': 1, 'max': 3}])",
        tune.grid_search([[1, 2]]),
    ],
)
def test_a_plain_constant_and_a_domain_are_none(value: Any) -> None:
    assert meant(value) == ()


def test_they_are_found_wherever_they_stand() -> None:
    space = {
        "optimizer": {"betas": [0.9, 0.99]},
        "kind": "choice([{'name': 'a', 'sizes': [1, 2, 3]}, {'name': 'b'}])",
        "lr": "uniform(0, 1)",
    }
    assert [slip.path for slip in slips(parse_space(space))] == ["optimizer.betas", "kind.sizes"]


def test_it_is_told_with_what_to_write() -> None:
    [slip] = slips(parse_space({"lr": [0.001, 0.1]}))
    assert str(slip) == (
        "lr is [0.001, 0.1] in every trial. Did you mean choice([0.001, 0.1]) or "
        "loguniform(0.001, 0.1)? If it is to be constant, write constant([0.001, 0.1])."
    )
    [long] = slips(parse_space({"lr": list(range(1000))}))
    assert len(str(long)) < 400
    assert "choice([0, 1, 2, 3" in str(long)
