"""The front of several goals: the trials of which no other is better in every goal.

Points hold the loss of each goal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import le, lt

from tuner.experiment.results.selection import best_report
from tuner.experiment.trials import TrialRecord
from tuner.spec.sections import Objective

Point = tuple[float, ...]


def points_of(
    trials: Iterable[TrialRecord], objective: Objective
) -> list[tuple[Point, TrialRecord]]:
    """(point, trial) of each trial at its best epoch by the first goal, if it keeps the limits."""
    names = {goal.metric for goal in objective.goals}
    reports = ((best_report(trial, objective), trial) for trial in trials)
    return [
        (objective.losses(report.metrics), trial)
        for report, trial in reports
        if report
        and names <= report.metrics.keys()
        and objective.counts(report.epoch, report.metrics)
    ]


def front_of(points: Iterable[tuple[Point, TrialRecord]]) -> list[tuple[Point, TrialRecord]]:
    """Those that no other is as good as in every goal, the best by the first goal first.

    Of equal points it has the first alone.
    """
    front: list[tuple[Point, TrialRecord]] = []
    for point, trial in sorted(points, key=lambda pair: (pair[0], int(pair[1].trial_id))):
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
    steps: Sequence[tuple[float, float]] = [*pairwise([*(p[-1] for p in inside), worst[-1]])]
    return sum(
        (upper - lower) * hypervolume([p[:-1] for p in inside[:count]], worst[:-1])
        for count, (lower, upper) in enumerate(steps, 1)
        if upper > lower
    )
