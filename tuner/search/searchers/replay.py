"""Tells a strategy what was before, as the journal has it: it goes on as if it had seen it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ray.tune.search import Searcher

from tuner.record.events import FAILED, INTERRUPTED, RESULT, TRIAL_ENDED, TRIAL_STARTED, Event


def replay(strategy: Searcher, events: Iterable[Event]) -> None:
    """Tell `strategy` every trial, report and end of `events`, in their order.

    A strategy without `take_trial` learns nothing from trials, and is told nothing. A trial whose
    node was lost says nothing of its config; one that was interrupted is not over.
    """
    take_trial = getattr(strategy, "take_trial", None)
    if take_trial is None:
        return
    last: dict[str, dict[str, Any]] = {}  # trial_id -> its last report
    for event in events:
        kind, trial_id = event["event"], event.get("trial_id", "")
        if kind == TRIAL_STARTED and trial_id not in last:
            take_trial(trial_id, event["config"])
            last[trial_id] = {}
        elif kind == RESULT:
            last[trial_id] = {**event["metrics"], "training_iteration": event["epoch"]}
            strategy.on_trial_result(trial_id, last[trial_id])
        elif kind == TRIAL_ENDED and event["status"] == FAILED:
            to_blame = event["error"]["kind"] != "node_lost"
            strategy.on_trial_complete(trial_id, None, error=to_blame)
        elif kind == TRIAL_ENDED and event["status"] != INTERRUPTED:
            strategy.on_trial_complete(trial_id, last[trial_id] or None)
