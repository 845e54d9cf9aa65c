"""What decides in a search, by its spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tuner.experiment.events import RESULT, TRIAL_STARTED, Event
from tuner.search.driver import scheduler_of, searcher_of
from tuner.search.schedulers._stopping import InOrder
from tuner.spec.experiment import ExperimentSpec, build_spec


def spec_of(**changes: Any) -> ExperimentSpec:
    space = {"lr": "uniform(0, 1)"}
    return build_spec({"search": {"space": space}, "num_samples": 9, **changes})


def test_nothing_stops_trials_where_nothing_says_so() -> None:
    assert type(scheduler_of(spec_of(scheduler=None))) is InOrder


@pytest.mark.parametrize(
    ("scheduler", "losses"),
    [(None, [1.0, 1.0, 1.0]), ({"name": "asha", "max_t": 9}, [1.0, 1.0, 1.0])],
)
def test_patience_is_added_to_whatever_stops_trials(scheduler: Any, losses: list[float]) -> None:
    built = scheduler_of(spec_of(scheduler=scheduler, stop={"patience_epochs": 2}))
    reports = enumerate(losses, start=1)
    assert [built.record("00000", epoch, {"val_loss": loss}) for epoch, loss in reports] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("strategy", ["random", "bohb"])
def test_a_searcher_has_seen_all_that_was_before(strategy: str) -> None:
    read = []

    def earlier() -> Iterator[Event]:
        for event in (
            {"event": TRIAL_STARTED, "trial_id": "00000", "config": {"lr": 0.5}},
            {"event": RESULT, "trial_id": "00000", "epoch": 1, "metrics": {"val_loss": 1.0}},
        ):
            read.append(event["event"])
            yield event

    spec = spec_of(search={"strategy": strategy, "space": {"lr": "uniform(0, 1)"}})
    searcher = searcher_of(spec, slots=1, earlier=earlier())
    assert read == [TRIAL_STARTED, RESULT]
    if strategy == "bohb":
        assert list(searcher.search.observations.trials) == ["00000"]
