"""What went wrong in trials: failures by their cause. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tuner.experiment.trials import TrialError, TrialRecord

OF_CONFIGS = ("nan", "oom")  # kinds of failure that part of a sound space may lead to

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_AMOUNT = re.compile(r"allocate (\d[\d.]* ?\w+)")


class Cause(NamedTuple):
    """What trials have in common that failed for one reason."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Failures:
    """Trials that failed with one cause: how many, and the first one's id and message."""

    kind: str
    count: int
    trial_id: str
    message: str


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


def failures_by_cause(trials: Iterable[TrialRecord]) -> dict[Cause, list[TrialRecord]]:
    """The failed trials by the cause, the most frequent one first; of `OF_CONFIGS` by the kind."""
    causes: dict[Cause, list[TrialRecord]] = {}
    for trial in trials:
        if trial.error is not None:
            kind = trial.error.kind
            cause = Cause(kind, "") if kind in OF_CONFIGS else cause_of(trial.error)
            causes.setdefault(cause, []).append(trial)
    return dict(sorted(causes.items(), key=lambda pair: -len(pair[1])))


def first_failures(causes: Mapping[Cause, Sequence[TrialRecord]]) -> list[Failures]:
    """The first failure of each cause of `failures_by_cause`."""
    firsts = [(cause.kind, len(failed), failed[0]) for cause, failed in causes.items()]
    return [
        Failures(kind, count, trial.trial_id, trial.error.message)
        for kind, count, trial in firsts
        if trial.error is not None
    ]
