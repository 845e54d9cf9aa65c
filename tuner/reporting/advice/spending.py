"""Findings on where epochs, time and memory go: rungs, slots, GPUs, and the data path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import atanh, ceil, floor, fsum, sqrt, tanh
from statistics import median

import numpy as np

from tuner.experiment.results.statistics import wilson
from tuner.reporting.advice.effects import rank_values
from tuner.reporting.advice.finding import Finding, format_share
from tuner.reporting.advice.record import SearchRecord
from tuner.spec.sections import EPOCH_S
from tuner.wording import format_number

_FEWEST = 20
_FEWEST_LEADERS = 10
_FEWEST_A_SLOT = 4  # trials: at a rung, leading, a slot
_BLIND = 0.55  # rank correlation of a rung with the next one
_ROOM = 1.25
_MOST_FIT = 8  # of the peak of a trial, for what the allocator keeps; trials a GPU
_SAVED = 0.2
_IDLE = 0.3
_MUCH = 0.35  # of the epochs; of the slots' time; of either
_WAITING = 0.3  # of a trial's time


def check_spending(record: SearchRecord) -> Iterator[Finding]:
    """The findings on rungs, if the scheduler is ASHA, on slots and memory."""
    scheduler = record.spec.scheduler
    length = record.spec.epochs
    factor = getattr(scheduler, "reduction_factor", None)
    if scheduler and factor and length:
        rungs = [ceil(rung) for rung in scheduler.rungs() if rung < length]
        blind = [*_check_rung_order(record, rungs, length)] or _check_grace_period(
            record, [*rungs, length][0], factor
        )
        yield from islice(blind, 1)
    yield from (
        *_check_idle_slots(record),
        *_check_spare_memory(record),
        *_check_data_waits(record),
    )


def compute_rank_correlation(
    pairs: Sequence[tuple[float, float]],
) -> tuple[float, float, float]:
    """Spearman's rank correlation and its 95 % interval; from -1 to 1 for fewer than 4 pairs.

    Fisher's, with the standard error of Fieller et al. (Biometrika 1957). Of equal values it is 0.
    """
    if len(pairs) < 4:
        return 0.0, -1.0, 1.0
    x_N, y_N = map(rank_values, np.transpose(pairs))
    rho = float(np.corrcoef(x_N, y_N)[0, 1]) if np.ptp(x_N) and np.ptp(y_N) else 0.0
    z = atanh(np.clip(rho, -0.999, 0.999))
    reach = 1.96 * sqrt(1.06 / (len(pairs) - 3))
    return rho, tanh(z - reach), tanh(z + reach)


def _check_rung_order(
    record: SearchRecord, rungs: Sequence[int], length: int
) -> Iterator[Finding]:
    """The rungs whose order, without diverged trials, says little of that at the next one."""
    trials = zip(record.trials, record.diverged_N, strict=True)
    curves = [
        dict(record.list_costs(trial)) for trial, diverged in trials if not diverged
    ]
    later = {e: min(r for r in (*rungs, length) if r > e) for e in range(1, length)}
    pairs = {
        e: [(c[e], c[n]) for c in curves if c.keys() >= {e, n}]
        for e, n in later.items()
    }
    known = {epoch: compute_rank_correlation(pairs[epoch]) for epoch in pairs}
    telling = [
        epoch for epoch, (rho, low, _) in known.items() if rho > _BLIND and low > 0
    ]
    for rung in rungs:
        n = len(pairs[rung])
        (rho, low, high) = known[rung]
        if n < _FEWEST or high >= _BLIND:
            continue
        grace = next((epoch for epoch in telling if epoch > rung), length)
        yield Finding(
            "rung_blind",
            "high" if rung == rungs[0] else "medium",
            f"Of the {n} trials that went on at the rung at epoch {rung}, the order there and at "
            f"epoch {later[rung]} have a rank correlation of {rho:.2f} ({low:.2f} to {high:.2f}).",
            f"It stops trials nearly by chance; the first epoch that says more is {grace}.",
            record.format_run_command(f"scheduler.grace_period={grace}"),
            {
                "rung": rung,
                "n": n,
                "correlation": rho,
                "interval": [low, high],
                "better": grace,
            },
        )


def _check_grace_period(
    record: SearchRecord, rung: int, factor: float
) -> Iterator[Finding]:
    """The epochs at which an earlier first rung keeps all leaders, and saves much."""
    curves = {
        n: dict(record.list_costs(trial)) for n, trial in enumerate(record.trials)
    }
    leaders = record.list_leaders(0.1, _FEWEST_LEADERS)
    spent = sum(map(len, curves.values()))
    low, _ = wilson(1.0, max(len(leaders), 1))
    for epoch in range(1, rung):
        order = sorted(
            (n for n in curves if epoch in curves[n]), key=lambda n: curves[n][epoch]
        )
        kept = order[: ceil(len(order) / factor)]
        saved = sum(max(curves[n]) - epoch for n in order[len(kept) :])
        if (
            len(leaders) < _FEWEST_LEADERS
            or not {*leaders} <= {*kept}
            or saved < _SAVED * spent
        ):
            continue
        yield Finding(
            "grace_long",
            "low" if saved < _MUCH * spent else "medium",
            f"The best {len(leaders)} of {len(order)} trials ({format_share(low, 1)}) are among "
            f"the best {len(kept)} at epoch {epoch} already; none is stopped before epoch {rung}.",
            f"With a rung there this search would have trained {100 * saved / spent:.0f} % less.",
            record.format_run_command(f"scheduler.grace_period={epoch}"),
            {
                "better": epoch,
                "n": len(order),
                "interval": [low, 1.0],
                "saved_epochs": saved,
            },
        )


def _check_idle_slots(record: SearchRecord) -> Iterator[Finding]:
    """Whether slots were empty for much of the time since the last start, and the main reason.

    Slots are max_concurrent, else the most trials at a time.
    """
    history = record.history
    resources = record.spec.resources
    if record.spec.is_elsewhere or history.ended is None or not history.runs:
        return
    driver = history.runs[-1]
    used = history.pace.side_by_side
    runs = [
        r
        for t in history.trials.values()
        for r in t.runs
        if r.started >= driver.started
    ]
    slots = max(record.spec.max_concurrent or used, used)
    n = len(runs)
    total = slots * driver.duration_s
    idle = total - sum(run.duration_s for run in runs)
    if n < _FEWEST_A_SLOT * max(slots, 3) or idle < _IDLE * total:
        return
    first, last = (bound(run.started for run in runs) for bound in (min, max))
    ends = used * (driver.duration_s - (last - first)) - sum(
        max(0.0, r.ended - last) for r in runs
    )
    waits = idle - ends - (unfilled := (slots - used) * driver.duration_s)
    if unfilled >= max(ends, waits):
        kind, reserved = (
            ("gpus", resources.gpus) if resources.gpus else ("cpus", resources.cpus)
        )
        fits = reserved * used / slots
        fits = floor(fits) if fits >= 1 else max(floor(100 * fits), 1) / 100
        meaning = f"Only {used} of {slots} trials fit at a time: reserve less for each."
        command = record.format_run_command(f"resources.{kind}={fits:g}")
    elif ends >= waits:
        meaning = f"{n} trials are few for {slots} slots: more of them keep all busy."
        command = f"tuner resume {record.name} --add-samples {n}"
    else:
        each = format_number(waits / n)
        meaning = f"A slot waits {each} s for each trial: see what slows the starts."
        command = "tuner doctor"
    parts = {"ends": ends / total, "waits": waits / total, "unfilled": unfilled / total}
    outside, between, never = (f"{100 * part:.0f} %" for part in parts.values())
    yield Finding(
        "slots_idle",
        "low" if idle < _MUCH * total else "medium",
        f"{slots} slots were empty for {100 * idle / total:.0f} % of "
        f"{format_number(driver.duration_s)} "
        f"s: {outside} before the first and after the last of {n} trials began, {between} between "
        f"trials, {never} as at most {used} ran at a time.",
        meaning,
        command,
        {"slots": slots, "used": used, "n": n, "idle": idle / total, **parts},
    )


def _check_spare_memory(record: SearchRecord) -> Iterator[Finding]:
    """Whether every trial leaves more than half of its share of a GPU's memory free."""
    gpus = record.spec.resources.gpus
    trials = record.history.trials.values()
    values = [
        [share for _, share in trial.list_values("peak_memory_share")]
        for trial in trials
    ]
    peaks = [max(shares) for shares in values if shares]
    if not 0 < gpus <= 1 or len(peaks) < _FEWEST_A_SLOT:
        return
    fits = min(floor(gpus / (_ROOM * max(*peaks, 1e-3))), _MOST_FIT)
    if fits > 1:
        yield Finding(
            "memory_spare",
            "low",
            f"The largest of {len(peaks)} trials takes {100 * max(peaks):.0f} % of a GPU's memory, "
            f"and each reserves {100 * gpus:.0f} %.",
            f"{fits} such trials fit where one is now, or batches about {fits} times as large.",
            record.format_run_command(
                f"resources.gpus={floor(100 * gpus / fits) / 100 or gpus / fits:g}"
            ),
            {"peak_share": max(peaks), "reserved": gpus, "n": len(peaks), "fits": fits},
        )


def _check_data_waits(record: SearchRecord) -> Iterator[Finding]:
    """Whether most trials wait for their data for much of their time."""
    trials = record.history.trials.values()
    spent = [
        [fsum(s for _, s in t.list_values(n)) for n in ("data_s", EPOCH_S)]
        for t in trials
    ]
    shares = [data / epoch for data, epoch in spent if data and epoch]
    n = len(shares)
    waiting = sum(part > _WAITING for part in shares)
    low, high = wilson(waiting / max(n, 1), max(n, 1))
    if low > 0.5:
        yield Finding(
            "data_slow",
            "high" if (middle := median(shares)) > 2 * _WAITING else "medium",
            f"{waiting} of {n} trials ({format_share(low, high)}) wait for their data for more "
            f"than {100 * _WAITING:.0f} % of their time, half of them for {100 * middle:.0f} % or "
            "more.",
            "The network is idle meanwhile: decode the images once, or load with more processes.",
            record.format_run_command(
                f"resources.cpus={2 * record.spec.resources.cpus:g}"
            ),
            {"waiting": waiting, "n": n, "interval": [low, high], "median": middle},
        )
