"""What a searcher keeps of trials, and how they end."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tuner.search.searchers.records import ENDED, FAILED, LOST, Record, Records


def record(x: int = 1) -> Record:
    return Record({"x": x}, "random")


def test_a_value_is_of_its_epoch_or_else_of_the_next() -> None:
    trial = record()
    epochs: list[Any] = [None, 4, True, "6", 0, math.inf, math.nan]
    for value, epoch in enumerate(epochs):
        trial.report(value, epoch)
    assert trial.reports == {1: 0.0, 4: 1.0, 5: 2.0, 6: 3.0, 7: 4.0, 8: 5.0, 9: 6.0}


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "high"])
def test_a_trial_that_ends_without_a_number_has_failed(value: Any) -> None:
    trial = record()
    trial.report(0.5)
    trial.report(value)
    trial.end()
    assert trial.status == FAILED
    assert trial.reports == {1: 0.5}


def test_one_that_comes_back_to_numbers_has_not_failed() -> None:
    trial = record()
    trial.report(math.nan)
    trial.report(0.5)
    trial.end()
    assert trial.status == ENDED


def test_all_that_were_tried_must_not_come_again_but_for_lost_ones() -> None:
    records = Records()
    records.warm = [record(1)]
    records.own = {"a": record(2), "b": record(3), "c": record(4)}
    records.own["b"].end(lost=True)
    records.own["c"].end(error=True)
    assert records.own["b"].status == LOST
    assert len(records.tried()) == 3
    assert [trial.config["x"] for trial in records] == [1, 2, 3, 4]
    assert records.running("a") is records.own["a"]
    assert records.running("b") is records.running("unknown") is None


def test_records_are_what_their_state_says() -> None:
    records = Records()
    records.warm = [record(1)]
    records.own = {"a": record(2)}
    records.own["a"].report(0.5, 3)
    again = Records.of_state(json.loads(json.dumps(records.state())))
    assert (again.own, again.warm) == (records.own, records.warm)
