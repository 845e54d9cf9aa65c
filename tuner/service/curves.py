"""What the page draws of an experiment: how good its trials are, and the curves of some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.experiment.events import FAILED, RUNNING
from tuner.experiment.results.selection import check
from tuner.experiment.trials import TrialRecord
from tuner.service.followed import Followed

_MOST_DOTS = 1500
_OF_EACH = 16  # curves: of the best trials, of those that run, and of the latest


def curves_json(results: Followed, metric: str | None = None) -> dict[str, Any]:
    """The metric and mode; a dot for each trial, the best so far, and curves of chosen trials.

    metric: of the curves alone, by default the objective's. A dot is [number, value, status]; of
    many trials only some have one. best_so_far has [number, value] where a trial was better than
    all before it, in the order of the ids. metrics: all that were reported. Raises UsageError for a
    metric that none reported.
    """
    metrics = results.once("metrics", lambda: results.metrics)
    if metric is not None:
        check("metric", metric, [results.metric, *metrics])
    metric = metric or results.metric
    chosen = results.once("chosen", lambda: _chosen(results))
    return {
        "metric": results.metric,
        "mode": results.mode,
        "metrics": metrics,
        "dots": results.once("dots", lambda: _dots(results)),
        "best_so_far": results.once("best_so_far", lambda: _best_so_far(results)),
        "of": metric,
        "curves": [
            {"trial_id": t.trial_id, "status": t.status, "points": t.values(metric)} for t in chosen
        ],
    }


def _dots(results: Followed) -> list[tuple[int, float, str]]:
    dots = [(int(t.trial_id), t.best.value, t.status) for t in results.trials.values() if t.best]
    step = max(1, -(-len(dots) // _MOST_DOTS))
    return dots[::step]


def _best_so_far(results: Followed) -> list[tuple[int, float]]:
    steps: list[tuple[int, float]] = []
    for trial in results.trials.values():
        if trial.best is None or trial.status == FAILED:
            continue
        if not steps or results.objective.is_better(trial.best.value, steps[-1][1]):
            steps.append((int(trial.trial_id), trial.best.value))
    return steps


def _chosen(results: Followed) -> Sequence[TrialRecord]:
    """The best trials first, then those that run, then the latest; each once."""
    running = results.history.of_status(RUNNING)
    latest = list(results.trials.values())[: -_OF_EACH - 1 : -1]
    best = results.top(_OF_EACH)
    found = {trial.trial_id: trial for trial in [*best, *running[-_OF_EACH:], *latest]}
    return list(found.values())
