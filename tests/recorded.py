"""Records of simulated searches, without files."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tuner.experiment.history import fold
from tuner.reporting.advice.record import SearchRecord
from tuner.spec.experiment import build_spec
from tuner.spec.space.parsing import parse_space

SPACE = {"lr": "loguniform(0.0001, 1)", "momentum": "uniform(0.5, 0.95)"}
Metrics = dict[str, float]
Point = np.ndarray[Any, np.dtype[np.float64]]


def record(
    metrics: Callable[[Point, np.random.Generator], Sequence[Metrics]],
    trials: int = 80,
    *,
    seed: int = 0,
    point: Callable[[np.random.Generator], Point] | None = None,
    validation: dict[str, Any] | None = None,
    tested: tuple[str, ...] = (),
    test: dict[str, Any] | None = None,
    **spec: Any,
) -> SearchRecord:
    """A search of uniform points, or of those of `point`.

    metrics: the reports of a point; NaN as a loss fails it. A trial with fewer reports than max_t
    was stopped.
    """
    fields = {
        "trainable": "module:function",
        "search": {"strategy": "random", "space": SPACE},
        "scheduler": {"max_t": 8, "grace_period": 1, "reduction_factor": 3},
        "num_samples": trials,
    } | spec
    built = build_spec(fields)
    space = parse_space(fields["search"]["space"])
    rng = np.random.default_rng(seed)
    events: list[dict[str, Any]] = [
        {"event": "experiment_started", "time": 0.0, "resumed": False}
    ]
    for number in range(trials):
        u_D = point(rng) if point else rng.random(len(space))
        config = {
            name: d.compute_value(float(u))
            for (name, d), u in zip(space.items(), u_D, strict=True)
        }
        trial = {"time": float(number), "trial_id": f"{number:05}"}
        events.append({"event": "trial_started", **trial, "config": config})
        reports = metrics(u_D, rng)
        end = {}
        for epoch, report in enumerate(reports, start=1):
            if report[built.objective.metric] != report[built.objective.metric]:
                end = {"status": "failed", "error": {"kind": "nan", "message": "NaN"}}
                break
            events.append(
                {"event": "result", **trial, "epoch": epoch, "metrics": report}
            )
        is_whole = len(reports) >= (built.epochs or 1)
        end = end or {"status": "completed" if is_whole else "stopped"}
        events.append({"event": "trial_ended", **trial, **end})
    history = fold(events, built.objective)
    return SearchRecord("digits", built, history, validation, tested, test=test)


def losses(loss: float, epochs: int = 8) -> list[Metrics]:
    """Reports that fall to a loss."""
    return [{"val_loss": loss + epoch**-1.5} for epoch in range(1, epochs + 1)]


def around(*best: float) -> Callable[[Point, np.random.Generator], list[Metrics]]:
    """Reports whose loss is the squared distance from a point of the unit cube."""
    return lambda u_D, rng: losses(float(((u_D - np.array(best)) ** 2).sum()))
