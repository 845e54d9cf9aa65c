"""What resumes have changed of an experiment's spec, as its experiment.json keeps it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, NotRequired

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from tuner.errors import UsageError
from tuner.experiment.events import Time
from tuner.experiment.trials import TrialRecord

CHANGES = "changes"  # in experiment.json, oldest first: each as `Change.as_dict` has it
_Recorded = TypedDict(
    "_Recorded",
    {"was": dict[str, Any], "is": dict[str, Any], "epochs": int | None, "time": NotRequired[Time]},
)


class Change(NamedTuple):
    """What one resume changed, each from what it `was` to what it is `now`, by dotted path.

    epochs: how many a complete trial had before; None: trials had no such bound. time: in seconds
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
    recorded = TypeAdapter(list[_Recorded], config=ConfigDict(strict=True))
    is_valid = recorded.validator.isinstance_python(changes)
    if not is_valid or any(raw["was"].keys() != raw["is"].keys() for raw in changes):
        raise UsageError(f"experiment.json of {name} is damaged: `{CHANGES}`")
    return [Change(raw["was"], raw["is"], raw["epochs"], raw.get("time")) for raw in changes]


def changes_json(
    document: Mapping[str, Any], trials: Collection[TrialRecord], name: str
) -> list[dict[str, Any]]:
    """The changes in the experiment.json `document` of the experiment `name`, oldest first.

    Each is {time, after_epochs, was, is}: when, how many epochs all trials together had reported
    by then, and what it was and is, both {dotted path: value}. The first two are None where the
    time was not kept. Raises UsageError if the changes are damaged.
    """

    def reported(until: float) -> int:
        return sum(report.time < until for trial in trials for report in trial.results)

    return [
        {
            "time": change.time,
            "after_epochs": None if change.time is None else reported(change.time),
            "was": change.was,
            "is": change.now,
        }
        for change in changes_of(document, name)
    ]
