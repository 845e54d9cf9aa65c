"""Which trial is best: scores of a trial's reported values. Pure; NaN never wins.

The scopes are Ray Tune's (`ExperimentAnalysis.get_best_trial`), and agree with it on every trial
that ended well:

    last                       the last reported value
    avg                        the mean of all reported values
    last-5-avg, last-10-avg    the mean of the last 5 or 10, of fewer where there are fewer
    best, all                  the best value at any epoch; two names for one scope

Failed trials are left out whatever they reported: what they reported last, and their checkpoint,
is what led to the failure. Ray keeps them, and takes an only trial for the best even at NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, isfinite

from tuner.errors import UsageError, unknown
from tuner.record.events import FAILED
from tuner.record.history import TrialRecord

SCOPES = ("best", "all", "last", "avg", "last-5-avg", "last-10-avg")
MODES = ("min", "max")

_LAST_N = {"last": 1, "last-5-avg": 5, "last-10-avg": 10}


def score(values: Sequence[float], *, mode: str, scope: str) -> float | None:
    """The number that `values`, oldest first, are compared by; None where none is finite."""
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return None
    if scope in ("best", "all"):
        return min(finite) if mode == "min" else max(finite)
    recent = finite[-_LAST_N[scope] :] if scope in _LAST_N else finite
    return fsum(recent) / len(recent)


def best_epoch(values: Iterable[tuple[int, float]], *, mode: str) -> int | None:
    """The first epoch of the best finite value among (epoch, value); None where there is none."""
    sign = 1 if mode == "min" else -1
    finite = [(sign * value, epoch) for epoch, value in values if isfinite(value)]
    return min(finite)[1] if finite else None


def ranked(
    trials: Iterable[TrialRecord], metric: str, *, mode: str, scope: str
) -> list[tuple[float, TrialRecord]]:
    """(score, trial) of every usable trial, best first; of equals the lower trial_id first.

    Raises UsageError for a mode or scope that there is not.
    """
    check("mode", mode, MODES)
    check("scope", scope, SCOPES)
    scored: list[tuple[float, TrialRecord]] = []
    for trial in trials:
        values = [value for _, value in trial.values(metric)]
        found = score(values, mode=mode, scope=scope) if trial.status != FAILED else None
        if found is not None:
            scored.append((found, trial))
    sign = 1 if mode == "min" else -1
    return sorted(scored, key=lambda pair: (sign * pair[0], int(pair[1].trial_id)))


def mode_of(metric: str) -> str:
    """The mode that a metric's name implies: losses and errors go down, accuracies up.

    Raises UsageError for a name that does not say.
    """
    name = metric.lower()
    for mode, parts in (("min", ("loss", "error")), ("max", ("acc",))):
        if any(part in name for part in parts):
            return mode
    raise UsageError(f"mode: say min or max for {metric!r}, which is not the objective")


def check(what: str, value: str, known: Sequence[str]) -> None:
    """Raise UsageError, with the nearest and all choices, for a value that is not in `known`."""
    if value not in known:
        raise UsageError(str(unknown(what, what, value, known)))
