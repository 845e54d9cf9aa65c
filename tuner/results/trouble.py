"""What went wrong in trials: failures by their kind, and memory that kept growing. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tuner.record.trials import TrialError, TrialRecord

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_AMOUNT = re.compile(r"allocate (\d[\d.]* ?\w+)")


class Cause(NamedTuple):
    """What trials have in common that failed for one reason."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Failures:
    """Trials that failed in one way: how many, and the first one's id and message."""

    count: int
    trial_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Growth:
    """Trials whose memory grew epoch after epoch: how many, the first one, and its MiB an epoch."""

    count: int
    trial_id: str
    mib: float


def cause_of(error: TrialError) -> Cause:
    """Of a message its numbers do not count; of `oom` only the amount, where the message has it.

    >>> cause_of(TrialError("exception", "ValueError: <Net object at 0x7f12>, at net.py:12"))
    Cause(kind='exception', message='ValueError: <Net object at #>, at net.py:#')
    >>> cause_of(TrialError("oom", "Tried to allocate 2.00 GiB. Process 1234 has 5 GiB in use"))
    Cause(kind='oom', message='2.00 GiB')
    """
    if error.kind == "oom" and (amount := _AMOUNT.search(error.message)):
        return Cause(error.kind, amount[1])
    return Cause(error.kind, _NUMBER.sub("#", error.message))


def failures_by_kind(
    trials: Iterable[TrialRecord],
) -> dict[str, list[tuple[TrialRecord, str]]]:
    """The failed trials, each with its message, by kind of failure; the most frequent first."""
    kinds: dict[str, list[tuple[TrialRecord, str]]] = {}
    for trial in trials:
        if trial.error is not None:
            kinds.setdefault(trial.error.kind, []).append((trial, trial.error.message))
    return dict(sorted(kinds.items(), key=lambda pair: -len(pair[1])))


def first_failures(
    kinds: Mapping[str, Sequence[tuple[TrialRecord, str]]],
) -> dict[str, Failures]:
    """What is told first of `failures_by_kind`."""
    firsts = {kind: (len(failed), *failed[0]) for kind, failed in kinds.items()}
    return {
        kind: Failures(count, trial.trial_id, message)
        for kind, (count, trial, message) in firsts.items()
    }


def growth_of(trials: Iterable[TrialRecord]) -> Growth | None:
    """The memory of the trials that kept growing; None where none did."""
    from tuner.trial.memory import EPOCHS

    long = (trial for trial in trials if len(trial.results) > EPOCHS)  # few are of 100,000
    grown = [(trial.trial_id, mib) for trial in long if (mib := _growth(trial)) is not None]
    return Growth(len(grown), *grown[0]) if grown else None


def _growth(trial: TrialRecord) -> float | None:
    """MiB an epoch by which any memory of the trial grew."""
    from tuner.trial.memory import WATCHED, first_growth

    samples = ([value for _, value in trial.values(name)] for name in WATCHED)
    return next((mib for each in samples if (mib := first_growth(each)) is not None), None)
