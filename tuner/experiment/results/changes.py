"""What resumes have changed of an experiment, and how far it had come when they did."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from tuner.experiment.changes import changes_of
from tuner.experiment.trials import TrialRecord


def changes_json(
    document: Mapping[str, Any], trials: Iterable[TrialRecord], name: str
) -> list[dict[str, Any]]:
    """The changes in the experiment.json `document` of the experiment `name`, oldest first.

    Each is {time, after_epochs, was, is}: when, how many epochs all trials together had reported
    by then, and what it was and is, both {dotted path: value}. The first two are None where the
    time was not kept. Raises UsageError if the changes are damaged.
    """
    changes, trials = changes_of(document, name), list(trials)
    return [
        {
            "time": change.time,
            "after_epochs": None if change.time is None else _reported(trials, change.time),
            "was": dict(change.was),
            "is": dict(change.now),
        }
        for change in changes
    ]


def _reported(trials: Iterable[TrialRecord], until: float) -> int:
    return sum(bisect_left(trial.results, until, key=attrgetter("time")) for trial in trials)
