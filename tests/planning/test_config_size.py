"""How deep and how large a config may be: so that the journal takes it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.errors import SpecError
from tuner.experiment.events import DEEPEST
from tuner.experiment.journal import Journal
from tuner.planning.config_size import LARGEST, config_faults, extent
from tuner.planning.validation import validate
from tuner.spec.space.domains import Choice, Numeric


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def config_of(levels: int) -> dict[str, Any]:
    return {"a": nested(levels - 1)}


def train(config: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("value", "levels"),
    [
        *((1, 0), (None, 0), ("x", 0), ([], 0), ({}, 0), ([[]], 1), ([1, [2]], 2)),
        *(({"a": 0.1}, 1), ({"a": [1, {"b": "\N{GRINNING FACE}"}]}, 3)),
    ],
)
def test_the_extent_of_a_constant_is_no_less_than_its_json(value: Any, levels: int) -> None:
    size = len(json.dumps(value, separators=(",", ":")))
    found = extent(value)
    assert found[0] == levels
    assert size <= found[1] <= 4 * size + 3


def test_the_extent_of_a_domain_is_that_of_its_largest_value() -> None:
    assert extent(Choice((1, [[2]], "long" * 10))) == (2, 43)
    assert extent(Choice(({"lr": Numeric(0.1, 1)}, 3))) == extent({"lr": Numeric(0.1, 1)})
    assert extent(Numeric(0.1, 1))[1] > len(repr(-1.7976931348623157e308))


def test_what_is_as_deep_as_may_be_is_journaled(tmp_path: Any) -> None:
    deepest = config_of(DEEPEST)
    assert list(config_faults(SimpleNamespace(space=deepest))) == []
    with Journal.open(tmp_path) as journal:
        journal.append("trial_started", trial_id="00000", config=deepest)


def test_what_is_deeper_or_larger_is_refused_before_anything_starts() -> None:
    space = {"a": Choice((1, nested(DEEPEST))), "b": "x" * LARGEST}
    spec = {
        "trainable": train,
        "search": {"space": space, "strategy": "random"},
        "scheduler": {"max_t": 2},
        "num_samples": 1,
    }
    with pytest.raises(SpecError) as refused:
        validate(spec)
    deep, large = map(str, refused.value.faults)
    assert deep == "search.space: must be nested at most 20 levels deep, got 21"
    assert large.startswith("search.space: must give configs of at most 15,728,640 bytes as JSON")


@pytest.mark.parametrize("field", ["configs", "points_to_evaluate"])
def test_configs_that_are_given_count_too(field: str) -> None:
    search = SimpleNamespace(space={"a": 1}, **{field: ({"a": 1}, config_of(DEEPEST + 1))})
    [fault] = config_faults(search)
    assert str(fault) == f"search.{field}.1: must be nested at most 20 levels deep, got 21"
