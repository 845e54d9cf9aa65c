"""Findings on where epochs and time go: rungs that decide badly, a late first rung, idle slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import atanh, ceil, floor, sqrt, tanh

import numpy as np

from tuner.experiment.events import STOPPED
from tuner.experiment.results.statistics import wilson
from tuner.experiment.trials import TrialRecord
from tuner.reporting.advice.effects import ranks
from tuner.reporting.advice.finding import Finding, run_like, share
from tuner.reporting.advice.record import SearchRecord
from tuner.wording import number

_FEWEST = 12  # trials at a rung
_BLIND = 0.6  # rank correlation of a rung with the next one
_FEWEST_LEADERS = 10
_KEPT = 0.7  # of the leaders, and rank correlation, for an earlier first rung
_SAVED = 0.2  # of the epochs
_MUCH = 0.35  # of the epochs or of the slots' time, for a higher severity
_IDLE = 0.3  # of the slots' time
_FEWEST_A_SLOT = 4  # trials

Costs = Mapping[int, float]  # by epoch


def spending_findings(record: SearchRecord) -> Iterator[Finding]:
    """The findings on rungs, if the scheduler has any, and on slots."""
    factor = getattr(record.spec.scheduler, "reduction_factor", None)  # of ASHA
    if factor and record.spec.scheduler and (length := record.spec.epochs):
        rungs = dict.fromkeys(ceil(epoch) for epoch in record.spec.scheduler.rungs())
        rungs = [epoch for epoch in rungs if epoch < length]
        trials = zip(record.trials, record.diverged_N, strict=True)
        reports = {t.trial_id: dict(record.curve(t)) for t, diverged in trials if not diverged}
        blind = list(_blind(record, [*reports.values()], [*rungs, length]))
        yield from blind or _late(record, reports, (rungs or [length])[0], factor)
        if record.spec.brackets == 1:
            yield from list(_unused(record, rungs, 1 - 1 / factor))[:1]
    yield from _idle(record)


def correlation(curves: Sequence[Costs], early: int, late: int) -> tuple[int, float, float, float]:
    """(n, Spearman's rank correlation of the costs at two epochs, its 95 % interval).

    The interval is Fisher's, with Fieller's standard error (Biometrika 1957). Equal costs have none
    beyond chance: 0. The interval of fewer than 4 trials is from -1 to 1.
    """
    pairs = np.array([(c[early], c[late]) for c in curves if early in c and late in c])
    if len(pairs) < 4:
        return len(pairs), 0.0, -1.0, 1.0
    x_N, y_N = ranks(pairs[:, 0]), ranks(pairs[:, 1])
    varies = np.ptp(x_N) > 0 and np.ptp(y_N) > 0
    rho = float(np.corrcoef(x_N, y_N)[0, 1]) if varies else 0.0
    z, reach = atanh(np.clip(rho, -0.999, 0.999)), 1.96 * sqrt(1.06 / (len(pairs) - 3))
    return len(pairs), rho, tanh(z - reach), tanh(z + reach)


def _blind(record: SearchRecord, curves: Sequence[Costs], epochs: list[int]) -> Iterator[Finding]:
    """The first rung whose order says little of the order at the next one, or at the end."""

    def is_telling(epoch: int) -> bool:
        _, rho, low, _ = correlation(curves, epoch, min(e for e in epochs if e > epoch))
        return rho > _BLIND and low > 0

    for rung, later in pairwise(epochs):
        n, rho, low, high = correlation(curves, rung, later)
        if n < _FEWEST or high >= _BLIND:
            continue
        grace = next((e for e in range(rung + 1, epochs[-1]) if is_telling(e)), epochs[-1])
        stopped = _stopped_at(record, rung)
        yield Finding(
            "rung_blind",
            "high" if rung == epochs[0] else "medium",
            f"The rung at epoch {rung} stopped {stopped} trials; of the {n} that went on, the order "
            f"there and at epoch {later} have a rank correlation of {rho:.2f} ({low:.2f} to "
            f"{high:.2f}).",
            f"It stops trials by chance; the first epoch that says more is {grace}."
            if grace < epochs[-1]
            else "It stops trials by chance, and no epoch before the end says more.",
            run_like(record.name, f"scheduler.grace_period={grace}"),
            {"rung": rung, "later": later, "n": n, "stopped": stopped, "correlation": rho}
            | {"interval": [low, high], "grace_period": grace},
        )
        return


def _stopped_at(record: SearchRecord, epoch: int) -> int:
    """How many trials the scheduler stopped there."""
    stopped = [t for t in record.history.of_status(STOPPED) if t.ended_by is None]
    return sum(t.last_epoch == epoch for t in stopped)


def _unused(record: SearchRecord, rungs: Sequence[int], meant: float) -> Iterator[Finding]:
    """The rungs that stop less than a quarter of the trials that they are meant to stop."""
    for rung in rungs:
        n = sum(t.last_epoch >= rung for t in record.history.trials.values())
        stopped = _stopped_at(record, rung)
        low, high = wilson(stopped / n, n) if n else (0.0, 1.0)
        if n < _FEWEST or high >= meant / 4:
            continue
        yield Finding(
            "rung_unused",
            "medium",
            f"The rung at epoch {rung} stopped {stopped} of {n} trials ({share(low, high)}), where "
            f"ASHA means to stop {100 * meant:.0f} %.",
            "Nearly all trials beat the earlier ones there; `forecast` compares their predicted "
            "ends with the best instead.",
            run_like(record.name, "scheduler.name=forecast"),
            {"rung": rung, "stopped": stopped, "n": n, "interval": [low, high], "meant": meant},
        )


def _late(
    record: SearchRecord, reports: Mapping[str, Costs], rung: int, factor: float
) -> Iterator[Finding]:
    """Whether an earlier first rung would have let all leaders go on, and saved many epochs."""
    reached = {key: costs for key, costs in reports.items() if costs.keys() >= {1, rung}}
    leaders = [record.trials[n].trial_id for n in record.leaders(0.1, _FEWEST_LEADERS)]
    low_kept, high_kept = wilson(1.0, len(leaders)) if leaders else (0.0, 1.0)
    for epoch in range(1, rung):
        curves = {key: costs for key, costs in reached.items() if epoch in costs}
        best = sorted(curves, key=lambda key: curves[key][epoch])
        kept, left = best[: ceil(len(best) / factor)], best[ceil(len(best) / factor) :]
        n, rho, low, _ = correlation([*curves.values()], epoch, rung)
        if low < _KEPT or low_kept < _KEPT or not {*leaders} <= {*kept}:
            continue
        saved = sum(max(reports[key]) - epoch for key in left)
        spent = sum(t.last_epoch for t in record.history.trials.values())
        if saved < _SAVED * spent:
            return
        yield Finding(
            "grace_long",
            "low" if saved < _MUCH * spent else "medium",
            f"No trial is stopped before epoch {rung}, but the order of {n} trials at epoch "
            f"{epoch} and there have a rank correlation of {rho:.2f} (at least {low:.2f}), and the "
            f"best {len(leaders)} are among the best {len(kept)} there ({share(low_kept, 1)}).",
            f"With a first rung at epoch {epoch} this search would have trained "
            f"{100 * saved / spent:.0f} % fewer epochs.",
            run_like(record.name, f"scheduler.grace_period={epoch}"),
            {"rung": rung, "grace_period": epoch, "n": n, "correlation": rho}
            | {"interval": [low, 1.0], "leaders": len(leaders), "saved_epochs": saved},
        )
        return


def _idle(record: SearchRecord) -> Iterator[Finding]:
    """Whether slots were empty for much of the search, and why.

    Slots are max_concurrent, else the most trials at a time. Empty are those that never had a
    trial ("unfilled"), those before the first trial and after the last one began ("ends"), and
    those between two trials ("waits").
    """
    history, trials = record.history, [*record.history.trials.values()]
    used = _side_by_side(trials)
    slots = max(record.spec.max_concurrent or used, used)
    if history.ended is None or len(trials) < _FEWEST_A_SLOT * max(slots, 3):
        return
    runs = [run for trial in trials for run in trial.runs]
    parts = {"unfilled": 0.0, "ends": 0.0}
    for driver in history.runs:
        begun = [run for run in runs if driver.started <= run.started <= driver.ended]
        starts = [run.started for run in begun] or [driver.ended]
        tail = sum(max(0.0, run.ended - max(starts)) for run in begun)
        outside = driver.duration_s - (max(starts) - min(starts))
        parts["ends"] += used * outside - tail
        parts["unfilled"] += (slots - used) * driver.duration_s
    total = slots * history.duration_s
    idle = total - sum(trial.duration_s for trial in trials)
    parts["waits"] = idle - sum(parts.values())
    why = max(parts, key=lambda name: parts[name])
    if idle < _IDLE * total:
        return
    meaning, command = _filled(record, why, used, slots, parts[why])
    shares = {name: round(part / total, 3) for name, part in parts.items()}
    yield Finding(
        "slots_idle",
        "low" if idle < _MUCH * total else "medium",
        f"{slots} slots were empty for {100 * idle / total:.0f} % of {number(history.duration_s)} "
        f"s: {100 * shares['ends']:.0f} % before the first and after the last of {len(trials)} "
        f"trials began, {100 * shares['waits']:.0f} % between trials, "
        f"{100 * shares['unfilled']:.0f} % never filled.",
        meaning,
        command,
        {"slots": slots, "used": used, "n": len(trials), "idle": idle / total, "why": why}
        | {"shares": shares},
    )


def _side_by_side(trials: Sequence[TrialRecord]) -> int:
    """The most trials that ran at a time."""
    runs = [run for trial in trials for run in trial.runs]
    moments = [(run.started, 1) for run in runs] + [(run.ended, -1) for run in runs]
    return int(np.cumsum([change for _, change in sorted(moments)] or [0]).max())


def _filled(
    record: SearchRecord, why: str, used: int, slots: int, idle_s: float
) -> tuple[str, str]:
    """What the main reason means, and what fills the slots."""
    n, resources = len(record.history.trials), record.spec.resources
    if why == "unfilled":
        kind = "gpus" if resources.gpus else "cpus"
        fits = floor(100 * getattr(resources, kind) * used / slots) / 100
        return (
            f"Only {used} of {slots} trials fit at a time: reserve less for each.",
            run_like(record.name, f"resources.{kind}={max(fits, 0.01):g}"),
        )
    if why == "ends":
        return (
            f"{n} trials are few for {slots} slots: more keep them busy.",
            f"tuner resume {record.name} --add-samples {n}",
        )
    wait = f"A slot waits {number(idle_s / n)} s for each trial"
    if record.spec.search.learns:
        other = "random" if record.spec.search.strategy == "hyperopt" else "hyperopt"
        return f"{wait}: a strategy that suggests faster helps.", (
            f"tuner run --like {record.name} --search {other}"
        )
    return f"{wait} to start: look for what slows the starts.", "tuner doctor"
