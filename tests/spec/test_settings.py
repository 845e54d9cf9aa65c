"""The base of the settings models, and pydantic's faults in plain words."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, model_validator

from tuner.errors import Fault
from tuner.spec.settings import FaultsError, Settings, parse, parse_names


class Inner(Settings):
    size: int = Field(1, ge=1)
    colour: Literal["red", "green", "blue"] = "red"


class Outer(Settings):
    name: str
    rate: float = 0.5
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _rule(self):
        if self.name == "wrong":
            raise FaultsError(
                Fault("rate", "is too high", self.rate), Fault("", "is odd")
            )
        return self


def faults(**values):
    made, errors = parse(Outer, values)
    assert made is None
    return [str(fault) for fault in errors]


class Mixed(Settings):
    count: Annotated[int, Field(ge=0)] | None = None
    flag: bool = False
    either: int | bool = 0


def test_parse_bool_for_number_is_refused():
    _, refused = parse(Mixed, {"count": True, "flag": True, "either": True})
    assert [str(fault) for fault in refused] == ["count: must be a number, got True"]
    assert parse(Mixed, {"count": 1, "flag": True, "either": True})[1] == []
    assert faults(name="x", rate=False) == ["rate: must be a number, got False"]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"name": "x", "inner": {"size": 0}},
        {"name": "x", "inner": {"size": "a"}},
        {"name": "x", "inner": 3},
        {"name": 3},
        {"name": "x", "rate": float("nan")},
        {"name": "x", "rate": float("inf")},
        {"name": "x", "rte": 1},
        {"name": "x", "inner": {"sice": 1}},
        {"name": "x", "inner": {"colour": "gren"}},
        {"name": "x", "inner": {"colour": 3}},
    ],
)
def test_parse_fault_names_key_rule_value_and_choices(snapshot, values):
    snapshot("\n".join(faults(**values)))


def test_parse_keeps_all_faults_below_a_prefix():
    assert len(faults(rate="x", inner={"size": 0, "colour": "x", "more": 1})) == 5
    assert [fault.key for fault in parse(Outer, {}, prefix="search")[1]] == [
        "search.name"
    ]
    assert faults(name="wrong") == ["rate: is too high, got 0.5", "is odd"]


def test_known_names_are_unique_and_checked(snapshot):
    assert parse_names("b", ("a", "b"), "letter") == ("b",)
    assert parse_names(["b", "a", "b"], ("a", "b"), "letter") == ("b", "a")
    with snapshot.raises(FaultsError):
        parse_names(["a", "c"], ("a", "b"), "letter")
    with snapshot.raises(FaultsError):
        parse_names(3, ("a", "b"), "letter")
