"""Replay: a resumed search suggests what an uninterrupted one would have."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.search.searchers.ahead import AheadSearch
from tuner.search.searchers.build import build_searcher
from tuner.search.searchers.replay import replay
from tuner.spec.experiment import STRATEGIES, ModelSettings, Objective

SPACE = {"lr": "loguniform(1e-4, 1)", "units": "randint(4, 64)", "kind": "choice(['a', 'b'])"}
LEARNING = sorted(name for name, kind in STRATEGIES.items() if issubclass(kind, ModelSettings))


def searcher(strategy: str) -> AheadSearch:
    settings = STRATEGIES[strategy](strategy=strategy, space=SPACE)
    found = build_searcher(settings, 3, objective=Objective(metric="loss", mode="min"), max_t=3)
    assert isinstance(found, AheadSearch)
    return found


def suggestion(search: AheadSearch, trial_id: str) -> dict[str, Any]:
    while (config := search.suggest(trial_id)) is None:
        search.settle()
    return config


def run(search: AheadSearch, numbers: range, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One trial after the other: two reports, every fifth fails; what would be journaled."""
    configs = []
    for number in numbers:
        trial_id = f"{number:05}"
        config = suggestion(search, trial_id)
        configs.append(config)
        events.append({"event": "trial_started", "trial_id": trial_id, "config": config})
        for epoch in (1, 2):
            metrics = {"loss": abs(config["lr"] - 0.1) + config["units"] / 64 / epoch}
            told = {"event": "result", "trial_id": trial_id, "epoch": epoch, "metrics": metrics}
            events.append(told)
            result = {**metrics, "training_iteration": epoch}
            search.on_trial_result(trial_id, result)
        ended = {"event": "trial_ended", "trial_id": trial_id, "status": "stopped"}
        if number % 5 == 4:
            ended |= {"status": "failed", "error": {"kind": "nan", "message": "m"}}
            search.on_trial_complete(trial_id, None, error=True)
        else:
            search.on_trial_complete(trial_id, result)
        events.append(ended)
    return configs


@pytest.mark.parametrize("strategy", LEARNING)
def test_it_goes_on_as_if_uninterrupted(strategy: str) -> None:
    events: list[dict[str, Any]] = [{"event": "experiment_started"}]
    whole = run(searcher(strategy), range(16), [])
    first = searcher(strategy)
    assert run(first, range(12), events) == whole[:12]
    second = searcher(strategy)
    replay(second, events)
    assert run(second, range(12, 16), []) == whole[12:]


def test_what_learns_nothing_is_told_nothing() -> None:
    for strategy in ("grid", "random"):
        settings = STRATEGIES[strategy](strategy=strategy, space=SPACE)
        search = build_searcher(settings, 0)
        replay(search, [{"event": "trial_started", "trial_id": "0", "config": {}}])
        assert search.suggest("00000")
