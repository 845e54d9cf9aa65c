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
        blind = list(_check_rung_order(record, rungs, length))
        if blind:
            yield blind[0]
        else:
            first_rung = [*rungs, length][0]
            yield from islice(_check_grace_period(record, first_rung, factor), 1)
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
    rho = 0.0
    if np.ptp(x_N) and np.ptp(y_N):
        rho = float(np.corrcoef(x_N, y_N)[0, 1])
    z = atanh(np.clip(rho, -0.999, 0.999))
    standard_error = sqrt(1.06 / (len(pairs) - 3))
    reach = 1.96 * standard_error
    return rho, tanh(z - reach), tanh(z + reach)


def _check_rung_order(
    record: SearchRecord, rungs: Sequence[int], length: int
) -> Iterator[Finding]:
    """The rungs whose order, without diverged trials, says little of that at the next one."""
    trials = zip(record.trials, record.diverged_N, strict=True)
    curves = [
        dict(record.list_costs(trial)) for trial, diverged in trials if not diverged
    ]
    later = {}
    pairs = {}
    known = {}
    for epoch in range(1, length):
        next_rung = min(rung for rung in (*rungs, length) if rung > epoch)
        later[epoch] = next_rung
        pairs[epoch] = [
            (curve[epoch], curve[next_rung])
            for curve in curves
            if curve.keys() >= {epoch, next_rung}
        ]
        known[epoch] = compute_rank_correlation(pairs[epoch])
    telling = [
        epoch for epoch, (rho, low, _) in known.items() if rho > _BLIND and low > 0
    ]
    for rung in rungs:
        n = len(pairs[rung])
        if n < _FEWEST:
            continue
        rho, low, high = known[rung]
        if high >= _BLIND:
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
    if len(leaders) < _FEWEST_LEADERS:
        return
    spent = sum(map(len, curves.values()))
    low, _ = wilson(1.0, len(leaders))
    for epoch in range(1, rung):
        present = [n for n, curve in curves.items() if epoch in curve]
        order = sorted(present, key=lambda n: curves[n][epoch])
        n_kept = ceil(len(order) / factor)
        kept = order[:n_kept]
        stopped = order[n_kept:]
        saved = sum(max(curves[n]) - epoch for n in stopped)
        if saved < _SAVED * spent or not {*leaders} <= {*kept}:
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
    duration_s = driver.duration_s
    total = slots * duration_s
    busy = sum(run.duration_s for run in runs)
    idle = total - busy
    fewest = _FEWEST_A_SLOT * max(slots, 3)
    if n < fewest or idle < _IDLE * total:
        return
    starts = [run.started for run in runs]
    first = min(starts)
    last = max(starts)
    busy_at_end = sum(max(0.0, run.ended - last) for run in runs)
    starting_s = last - first
    ends = used * (duration_s - starting_s) - busy_at_end
    unfilled = (slots - used) * duration_s
    waits = idle - ends - unfilled
    if unfilled >= max(ends, waits):
        kind = "gpus" if resources.gpus else "cpus"
        reserved = resources.gpus or resources.cpus
        share = reserved * used / slots
        fits: float = floor(share)
        if share < 1:
            fits = max(floor(100 * share), 1) / 100
        meaning = f"Only {used} of {slots} trials fit at a time: reserve less for each."
        command = record.format_run_command(f"resources.{kind}={fits:g}")
    elif ends >= waits:
        meaning = f"{n} trials are few for {slots} slots: more of them keep all busy."
        command = f"tuner resume {record.name} --add-samples {n}"
    else:
        each = format_number(waits / n)
        meaning = f"A slot waits {each} s for each trial: see what slows the starts."
        command = "tuner doctor"
    parts = {
        "ends": ends / total,
        "waits": waits / total,
        "unfilled": unfilled / total,
    }
    outside, between, never = (f"{100 * part:.0f} %" for part in parts.values())
    yield Finding(
        "slots_idle",
        "low" if idle < _MUCH * total else "medium",
        f"{slots} slots were empty for {100 * idle / total:.0f} % of "
        f"{format_number(duration_s)} "
        f"s: {outside} before the first and after the last of {n} trials began, {between} between "
        f"trials, {never} as at most {used} ran at a time.",
        meaning,
        command,
        {
            "slots": slots,
            "used": used,
            "n": n,
            "idle": idle / total,
            **parts,
        },
    )


def _check_spare_memory(record: SearchRecord) -> Iterator[Finding]:
    """Whether every trial leaves more than half of its share of a GPU's memory free."""
    gpus = record.spec.resources.gpus
    if not 0 < gpus <= 1:
        return
    peaks = []
    for trial in record.history.trials.values():
        shares = [share for _, share in trial.list_values("peak_memory_share")]
        if shares:
            peaks.append(max(shares))
    if len(peaks) < _FEWEST_A_SLOT:
        return
    largest = max(peaks)
    needed = _ROOM * max(largest, 1e-3)
    fits = min(floor(gpus / needed), _MOST_FIT)
    if fits > 1:
        share = floor(100 * gpus / fits) / 100 or gpus / fits
        yield Finding(
            "memory_spare",
            "low",
            f"The largest of {len(peaks)} trials takes {100 * largest:.0f} % of a GPU's memory, "
            f"and each reserves {100 * gpus:.0f} %.",
            f"{fits} such trials fit where one is now, or batches about {fits} times as large.",
            record.format_run_command(f"resources.gpus={share:g}"),
            {
                "peak_share": largest,
                "reserved": gpus,
                "n": len(peaks),
                "fits": fits,
            },
        )


def _check_data_waits(record: SearchRecord) -> Iterator[Finding]:
    """Whether most trials wait for their data for much of their time."""
    shares = []
    for trial in record.history.trials.values():
        data_s = fsum(s for _, s in trial.list_values("data_s"))
        epoch_s = fsum(s for _, s in trial.list_values(EPOCH_S))
        if data_s and epoch_s:
            shares.append(data_s / epoch_s)
    if not shares:
        return
    n = len(shares)
    waiting = sum(share > _WAITING for share in shares)
    low, high = wilson(waiting / n, n)
    if low > 0.5:
        middle = median(shares)
        cpus = 2 * record.spec.resources.cpus
        yield Finding(
            "data_slow",
            "high" if middle > 2 * _WAITING else "medium",
            f"{waiting} of {n} trials ({format_share(low, high)}) wait for their data for more "
            f"than {100 * _WAITING:.0f} % of their time, half of them for {100 * middle:.0f} % or "
            "more.",
            "The network is idle meanwhile: decode the images once, or load with more processes.",
            record.format_run_command(f"resources.cpus={cpus:g}"),
            {
                "waiting": waiting,
                "n": n,
                "interval": [low, high],
                "median": middle,
            },
        )
