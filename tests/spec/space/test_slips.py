"""Constants that were likely meant as domains."""

from __future__ import annotations

from typing import Any

import pytest
from ray import tune

from tuner.spec.space.domains import constant
from tuner.spec.space.parsing import EXAMPLES, parse_domain, parse_space
from tuner.spec.space.slips import slips


@pytest.mark.parametrize(
    "value",
    [
        [16, 32, 64],
        ["sgd", "adamw"],
        [0.1],
        (1e-4, 1e-1),
        [{"kind": "a"}, {"kind": "b"}],
        {"min": 0.5, "max": 0.9},
        {"low": 0.1, "high": 1.0, "log": True},
        {"distribution": "log_uniform_values", "min": 1e-3, "max": 1e-2},
        {"values": [1, 2]},
        "0.1,0.2",
        "1e-3..1",
        "16 32",
        "loguniform 1e-3 1",
        "1e-4, -.5",
    ],
)
def test_slips_constant_that_looks_like_a_domain_is_warned_of(value: object) -> None:
    [warning] = slips(parse_space({"a": value}))
    assert warning.startswith("a is ")


@pytest.mark.parametrize(
    "value",
    [
        0.1,
        "sgd",
        "uniform",
        "2026-11-21",
        "3x3",
        "resnet50, pretrained",
        None,
        [],
        {"step": 3},
        {"min": 0, "max": 1, "kernel": "rbf"},
        {"min": "uniform(0, 1)", "max": 2},
        constant([1, 2]),
        "constant({'min': 1, 'max': [2]})",
        "choice([[1, 2], [3, 4]])",
        "choice([{'min': 1, 'depth': 2}, {'min': 1, 'depth': 3}])",
        tune.grid_search([[1, 2]]),
    ],
)
def test_slips_plain_constant_or_domain_is_not_warned_of(value: Any) -> None:
    assert list(slips(parse_space({"a": value}))) == []


def test_slips_names_the_path_in_nested_names_and_branches() -> None:
    space = {
        "optimizer": {"betas": [0.9, 0.99]},
        "kind": "choice([{'name': 'a', 'sizes': [1, 2, 3]}, {'name': 'b'}])",
        "lr": "uniform(0, 1)",
    }
    paths = [warning.partition(" ")[0] for warning in slips(parse_space(space))]
    assert paths == ["optimizer.betas", "kind.sizes"]


def test_slips_says_what_to_write() -> None:
    [warning] = slips(parse_space({"lr": [0.001, 0.1]}))
    assert warning == (
        "lr is [0.001, 0.1] in every trial. Did you mean a domain, such as uniform(0, 1), "
        "loguniform(1e-4, 1e-1), randint(1, 9), choice([16, 32])? If it is to be constant, write "
        "constant([0.001, 0.1])."
    )
    [long] = slips(parse_space({"lr": list(range(1000))}))
    assert len(long) < 400


def test_examples_are_domains() -> None:
    assert len([parse_domain(text) for text in EXAMPLES]) == 4
