"""What resumes have changed of an experiment's spec, as its experiment.json keeps it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from tuner.errors import UsageError
from tuner.experiment.events import is_time
from tuner.experiment.trials import TrialRecord

CHANGES = "changes"  # in experiment.json, oldest first: each as `Change.as_dict` has it


class Change(NamedTuple):
    """What one resume changed, each from what it `was` to what it is `now`, by dotted path.

    epochs: how many a whole trial had before; None: trials had no such bound. time: in seconds
    since the epoch; None: it was not kept.
    """

    was: Mapping[str, Any]
    now: Mapping[str, Any]
    epochs: int | None
    time: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """As experiment.json has it."""
        known = {} if self.time is None else {"time": self.time}
        return {**known, "was": dict(self.was), "is": dict(self.now), "epochs": self.epochs}


def changes_of(document: Mapping[str, Any], name: str) -> list[Change]:
    """The changes in the experiment.json `document` of the experiment `name`, oldest first.

    Raises UsageError if they are damaged.
    """
    changes = document.get(CHANGES, [])
    if isinstance(changes, list) and all(map(_is_change, changes)):
        return [Change(raw["was"], raw["is"], raw["epochs"], raw.get("time")) for raw in changes]
    raise UsageError(f"experiment.json of {name} is damaged: `{CHANGES}`")


def _is_change(raw: Any) -> bool:
    return (
        isinstance(raw, dict)
        and isinstance(was := raw.get("was"), dict)
        and isinstance(now := raw.get("is"), dict)
        and was.keys() == now.keys()
        and type(raw.get("epochs", "")) in (int, type(None))
        and ("time" not in raw or is_time(raw["time"]))
    )


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
