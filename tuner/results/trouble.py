"""What went wrong in trials: failures by their kind, and memory that kept growing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tuner.record.trials import TrialRecord


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
