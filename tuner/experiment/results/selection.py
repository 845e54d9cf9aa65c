"""Which trial is best: scores of a trial's reported values. Pure; NaN never wins.

The scopes are Ray Tune's (`ExperimentAnalysis.get_best_trial`), and agree with it on every trial
that ended well:

    last                       the last reported value
    avg                        the mean of all reported values
    last-5-avg, last-10-avg    the mean of the last 5 or 10 values, or of all if there are fewer
    best                       what its best epoch is worth; see `tuner.experiment.estimate`
    all                        the best value at any epoch

Failed trials are always left out, since their last value and checkpoint led to the
failure. Ray keeps them, and takes a single trial for the best even if it is at NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum, inf, isfinite
from operator import le, lt
from typing import get_args

from tuner.errors import UsageError, build_unknown_fault
from tuner.experiment.estimate import Curve, build_curve
from tuner.experiment.events import FAILED
from tuner.experiment.trials import CheckpointRecord, Report, TrialRecord
from tuner.spec.sections import Mode, Objective

SCOPES = ("best", "all", "last", "avg", "last-5-avg", "last-10-avg")
MODES = get_args(Mode)

_LAST_N = {"last": 1, "last-5-avg": 5, "last-10-avg": 10}

Point = tuple[float, ...]


def score(
    values: Iterable[tuple[int, float]], objective: Objective, *, scope: str = "best"
) -> float | None:
    """The number that (epoch, value), oldest first, are compared by; None if none is finite."""
    if scope == "best":
        estimate = build_curve(values, objective).estimate
        return None if estimate is None else objective.compute_loss(estimate)
    finite = [value for _, value in values if isfinite(value)]
    if not finite:
        return None
    if scope == "all":
        return objective.choose_best(finite)
    recent = finite[-_LAST_N[scope] :] if scope in _LAST_N else finite
    return fsum(recent) / len(recent)


def find_best_value(trial: TrialRecord, objective: Objective) -> float | None:
    """The value that the trial reported at its best epoch; None without one that counts."""
    loss = build_curve(trial.list_counted_values(objective), objective).loss
    return None if loss is None else objective.compute_loss(loss)


def find_curve(trial: TrialRecord, objective: Objective) -> Curve:
    """The curve of the reports within the limits or, if none is, of all."""
    values = trial.list_counted_values(objective) or trial.list_values(objective.metric)
    return build_curve(values, objective)


def find_improvements(
    values: Iterable[tuple[float, float]], objective: Objective
) -> list[tuple[float, float]]:
    """(position, value) of each value that is better than all before it."""
    steps: list[tuple[float, float]] = []
    for position, value in values:
        if objective.is_better(value, steps[-1][1] if steps else None):
            steps.append((position, value))
    return steps


def find_best_report(trial: TrialRecord, objective: Objective) -> Report | None:
    """The report of the trial's best epoch; None if it reported no finite value.

    Of a trial beyond the limits, the report of its best epoch without them.
    """
    epoch = find_curve(trial, objective).epoch
    return None if epoch is None else trial.find_report(epoch)


def find_best_checkpoint(
    trial: TrialRecord, objective: Objective
) -> CheckpointRecord | None:
    """The checkpoint of the best epoch that has one, else the newest; None if it kept none."""
    kept = {record.epoch: record for record in trial.checkpoints}
    if not kept:
        return None
    epoch = find_curve(trial, objective).choose_epoch(kept)
    return kept[max(kept) if epoch is None else epoch]


def rank_trials(
    trials: Iterable[TrialRecord], objective: Objective, *, scope: str = "best"
) -> list[tuple[float, TrialRecord]]:
    """(score, trial) of usable trials, best first, then by their tie-break. Raises UsageError."""
    check("scope", scope, SCOPES)
    usable = [trial for trial in trials if trial.status != FAILED]
    scores = (
        (score(trial.list_counted_values(objective), objective, scope=scope), trial)
        for trial in usable
    )
    return sort_best_first(
        [(value, trial) for value, trial in scores if value is not None], objective
    )


def sort_best_first(
    scored: Iterable[tuple[float, TrialRecord]], objective: Objective
) -> list[tuple[float, TrialRecord]]:
    """(score, trial) in the order of `rank_trials`."""
    sign = objective.sign
    return sorted(
        scored, key=lambda pair: (sign * pair[0], *pair[1].break_tie(objective))
    )


def check(what: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError, with the nearest and all choices, for a value that is not in `choices`."""
    if value not in choices:
        raise UsageError(str(build_unknown_fault(what, what, value, choices)))


def compute_points(
    trials: Iterable[TrialRecord], objective: Objective
) -> list[tuple[Point, TrialRecord]]:
    """(point, trial) of each trial that counts: what it is worth by the first goal, as a loss, and
    the losses of the other goals at its best epoch.
    """
    points = []
    for trial in trials:
        if trial.best is None:
            continue
        others = trial.break_tie(objective)[:-1]
        if inf not in others:
            worth = objective.compute_loss(trial.best.estimate)
            points.append(((worth, *others), trial))
    return points


def find_front(
    points: Iterable[tuple[Point, TrialRecord]],
) -> list[tuple[Point, TrialRecord]]:
    """Those that no other is as good as in every goal, the best by the first goal first.

    Of equal points it has the first alone.
    """
    front: list[tuple[Point, TrialRecord]] = []
    for point, trial in sorted(
        points, key=lambda pair: (pair[0], int(pair[1].trial_id))
    ):
        if not any(all(map(le, other, point)) for other, _ in front):
            front.append((point, trial))
    return front


def hypervolume(points: Iterable[Point], worst: Point) -> float:
    """The volume between the points and the reference point `worst`, in slices of the last goal."""
    inside = sorted((p for p in points if all(map(lt, p, worst))), key=lambda p: p[-1])
    if not inside:
        return 0.0
    if len(worst) == 1:
        return worst[0] - inside[0][0]
    steps: Sequence[tuple[float, float]] = [
        *pairwise([*(p[-1] for p in inside), worst[-1]])
    ]
    return sum(
        (upper - lower) * hypervolume([p[:-1] for p in inside[:count]], worst[:-1])
        for count, (lower, upper) in enumerate(steps, 1)
        if upper > lower
    )
