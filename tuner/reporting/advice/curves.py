"""Findings on the learning curves: the length of trials, overfitting, and noise."""

# N trials

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np

from tuner.experiment.events import COMPLETED
from tuner.experiment.results.statistics import compute_mean
from tuner.experiment.trials import TrialRecord
from tuner.reporting.advice.finding import Finding
from tuner.reporting.advice.record import SearchRecord
from tuner.wording import format_number

_FEWEST = 3  # whole trials
_MOST = 10  # leading whole trials
_NOISY = 0.5  # least ratio of noise to what trials differ by, within chance
_SHORTEST = 4  # epochs of a curve that can be extended
_GAIN = 0.04  # of a curve's improvement so far: worth twice the epochs
_FLAT = 0.01  # of the same: no improvement
_RISE = 0.05  # of the same: overfitting
_ANNEALED = 0.5  # share of the learning rate that is left at the end
_REGULARISERS = (
    "weight_decay",
    "dropout",
    "smoothing",
    "mixup",
    "cutmix",
    "cutout",
    "augment",
    "crop",
    "flip",
    "erasing",
    "drop_path",
    "l2",
)


@dataclass(frozen=True, slots=True)
class Curve:
    """The costs of a whole trial by epoch, and its best so far; noise: the sd of an epoch's cost.

    The noise is estimated from second differences over the last half, by their median, so that a
    smooth curve has none.
    """

    trial: TrialRecord
    cost: Mapping[int, float]
    so_far: Mapping[int, float]
    noise: float

    @property
    def improvement(self) -> float:
        """From the first epoch to the best one."""
        return self.cost[min(self.cost)] - self.so_far[max(self.so_far)]

    def find_best(self, epoch: float) -> float:
        """The best cost up to an epoch."""
        end = max(epoch, min(self.so_far))
        last = max(e for e in self.so_far if e <= end)
        return self.so_far[last]


def _build_curve(record: SearchRecord, trial: TrialRecord) -> Curve:
    cost = dict(record.list_costs(trial))
    values = np.array(list(cost.values()))
    half = values[len(values) // 2 :]
    bends = np.zeros(1)
    if len(half) > 2:
        bends = np.abs(np.diff(half, 2))
    noise = float(np.median(bends)) / 0.6745 / sqrt(6)
    best_costs = map(float, np.minimum.accumulate(values))
    so_far = dict(zip(cost, best_costs, strict=True))
    return Curve(trial, cost, so_far, noise)


def check_curves(record: SearchRecord) -> Iterator[Finding]:
    """The findings on the curves of the leading third of the whole trials, 3 to 10; on noise.

    None on means over folds.
    """
    if record.has_folds:
        return
    trials = [record.trials[n] for n in record.order_N]
    ended = [
        t for t in trials if t.status == COMPLETED and len(record.list_costs(t)) > 1
    ]
    length = record.spec.epochs or max((t.last_epoch for t in ended), default=0)
    whole = [t for t in ended if t.last_epoch >= length]
    third = ceil(len(whole) / 3)
    count = min(max(third, _FEWEST), _MOST)
    leading = [_build_curve(record, trial) for trial in whole[:count]]
    if len(leading) >= _FEWEST and length >= _SHORTEST:
        overfit = list(_check_overfitting(record, length, leading))
        if overfit:
            yield from overfit
        else:
            yield from _check_improvement(record, length, leading)
            yield from _check_plateau(record, length, leading)
    yield from _check_noise(record, length)


def _check_noise(record: SearchRecord, length: int) -> Iterator[Finding]:
    """Whether the objective jumps from epoch to epoch more than the best trials differ.

    Those are ten that trained a third of the length; they differ by the sd of their means over the
    last half of the epochs that all of them have.
    """
    from scipy.special import chdtri

    shortest = max(length // 3, 2 * _SHORTEST)
    leaders = record.list_leaders(1.0, 1)
    trials = [record.trials[n] for n in leaders]
    curves = [
        _build_curve(record, t) for t in trials if len(record.list_costs(t)) >= shortest
    ][:_MOST]
    if len(curves) < _FEWEST:
        return
    last = min(max(curve.cost) for curve in curves)
    n = len(curves)
    half_means = []
    for curve in curves:
        half = [cost for epoch, cost in curve.cost.items() if last / 2 < epoch <= last]
        half_means.append(float(np.mean(half)))
    means = compute_mean(half_means)
    noise = sqrt(sum(curve.noise**2 for curve in curves) / n)
    improvements = [curve.improvement for curve in curves]
    least = _RISE * float(np.median(improvements))
    sd = means.sd or inf
    ratio = noise / sd
    low, high = (ratio * sqrt(chdtri(n - 1, p) / (n - 1)) for p in (0.975, 0.025))
    if noise < max(sd, least) or low < _NOISY:
        # Trials of a strategy that learns are alike
        return
    training = record.spec.training
    name = record.objective.metric
    constant = training.get("lr_schedule") == "constant"
    setting = "lr_schedule=cosine" if constant else "ema_decay=0.98"
    searched = {column.path for _, column in record.searched}
    fixed = {*training, *searched} - {"lr_schedule"}
    if record.spec.ships and setting.partition("=")[0] not in fixed:
        remedy = f"{setting} smooths it."
        command = record.format_run_command(f"training.{setting}")
    else:
        remedy = "let the mean of several seeds decide."
        command = f"tuner confirm {record.name} --top {n}"
    yield Finding(
        "noisy_steps",
        "medium",
        f"{name} jumps by {format_number(noise)} (sd) from epoch to epoch, {ratio:.1f} times "
        f"({low:.1f} to {high:.1f}) what the means of the best {n} trials differ by.",
        f"The best epoch wins by chance: {remedy}",
        command,
        {
            "noise": noise,
            "between": sd,
            "n": n,
            "interval": [low, high],
        },
    )


def _check_improvement(
    record: SearchRecord, length: int, curves: Sequence[Curve]
) -> Iterator[Finding]:
    """Whether twice the epochs would gain much.

    The next doubling gains what the last one did, less by the ratio of the last one to the one
    before. Silent where the learning rate falls to its end: such a curve improves at every length.
    """
    for curve in curves:
        rates = [rate for _, rate in curve.trial.list_values("lr")]
        if len(rates) > 1 and rates[-1] < _ANNEALED * rates[len(rates) // 2]:
            return
    gains = []
    shares = []
    for curve in curves:
        middle = curve.find_best(length / 2)
        last = middle - curve.find_best(length)
        before = curve.find_best(length / 4) - middle
        ratio = min(last / before, 1.0) if before > 0 else 1.0
        forecast = last * ratio
        gains.append(forecast)
        if curve.improvement > 0:
            shares.append(forecast / curve.improvement)
        else:
            shares.append(0.0)
    gain = compute_mean(gains)
    of_all = compute_mean(shares)
    noises = [curve.noise for curve in curves]
    noise = float(np.median(noises))
    low = gain.low or 0.0
    high = gain.high or 0.0
    if of_all.low is None or of_all.low < _GAIN:
        return
    if gain.mean < noise:
        return
    if record.spec.scheduler:
        command = f"tuner resume {record.name} scheduler.max_t={2 * length}"
    else:
        settings = _list_length_settings(record, 2 * length)
        command = record.format_run_command(*settings)
    yield Finding(
        "max_t_short",
        "high" if of_all.low > 2 * _GAIN else "medium",
        f"The leading {len(curves)} whole trials still improve at epoch {length}: twice as long "
        f"would gain {format_number(gain.mean)} of {record.objective.metric} by forecast "
        f"({format_number(low)} to {format_number(high)}).",
        "They are cut off before they are good; longer trials may also rank differently.",
        command,
        {
            "n": len(curves),
            "max_t": length,
            "expected_gain": gain.mean,
            "interval": [low, high],
            "share_of_improvement": of_all.mean,
        },
    )


def _check_plateau(
    record: SearchRecord, length: int, curves: Sequence[Curve]
) -> Iterator[Finding]:
    """Whether all leading trials stop improving in the first half; silent where noise hides it."""
    ends = []
    for curve in curves:
        slack = max(_FLAT * curve.improvement, 3 * curve.noise)
        if slack > _RISE * curve.improvement:
            return
        level = curve.find_best(length) + slack
        ends.append(
            next(epoch for epoch, cost in curve.so_far.items() if cost <= level)
        )
    end = max(ends)
    shorter = _find_least_length(record, ceil(1.25 * end), length)
    last_epochs = [trial.last_epoch for trial in record.history.trials.values()]
    spent = sum(last_epochs)
    saved = sum(max(0, epoch - shorter) for epoch in last_epochs)
    if end > length / 2 or shorter >= 0.7 * length:
        return
    yield Finding(
        "max_t_long",
        "low" if saved < 0.2 * spent else "medium",
        f"The leading {len(curves)} whole trials reach their best, up to {100 * _FLAT:.0f} % or "
        f"noise, by epoch {end} of {length} (median {np.median(ends):g}).",
        f"With {shorter} epochs this search would have trained {100 * saved / spent:.0f} % fewer.",
        record.format_run_command(*_list_length_settings(record, shorter)),
        {
            "n": len(curves),
            "max_t": length,
            "best_by": end,
            "saved_epochs": saved,
        },
    )


def _list_length_settings(record: SearchRecord, epochs: int) -> list[str]:
    scheduler = record.spec.scheduler
    if scheduler is None:
        return [f"training.epochs={epochs}"]
    settings = [f"scheduler.max_t={epochs}"]
    grace_period = getattr(scheduler, "grace_period", None) or 0
    if grace_period > epochs:
        settings.append(f"scheduler.grace_period={epochs}")
    return settings


def _find_least_length(record: SearchRecord, epochs: int, length: int) -> int:
    """The least length from `epochs` on that the search can have; at most its `length`."""
    least = max(epochs, record.spec.objective.from_epoch or 1)
    return next(
        (n for n in range(least, length) if record.can_train({"epochs": n})), length
    )


def _check_overfitting(
    record: SearchRecord, length: int, curves: Sequence[Curve]
) -> Iterator[Finding]:
    """Whether the objective gets worse again while the training loss falls."""
    metric = record.objective.metric
    twin = "train_loss"
    rises = []
    best_epochs = []
    for curve in curves:
        train = dict(curve.trial.list_values(twin))
        costs = curve.cost
        best = min(costs, key=lambda epoch: costs[epoch])
        tail = [cost for epoch, cost in costs.items() if epoch > 0.9 * length]
        if best not in train or length not in train:
            return
        if train[length] >= train[best]:
            return
        cost_at_end = float(np.mean(tail))
        lost = cost_at_end - costs[best] - 2 * curve.noise
        if curve.improvement > 0:
            rises.append(lost / curve.improvement)
        else:
            rises.append(0.0)
        best_epochs.append(best)
    rise = compute_mean(rises)
    median = ceil(float(np.median(best_epochs)))
    if rise.low is None or rise.low < _RISE:
        return
    if median > 0.75 * length:
        return
    searched = {column.path for _, column in record.searched}
    present = sorted(
        n
        for n in (*searched, *record.spec.training)
        if any(r in n for r in _REGULARISERS)
    )
    regularisers = ", ".join(present) or "none"
    if record.spec.ships and "weight_decay" not in present:
        settings = ["search.space.weight_decay=loguniform(1e-5, 0.1)"]
    else:
        shorter = _find_least_length(record, median, length)
        settings = _list_length_settings(record, shorter)
    yield Finding(
        "overfitting",
        "medium",
        f"{metric} of the leading {len(curves)} whole trials is best at epoch {median} of {length} "
        f"and then loses {100 * rise.mean:.0f} % of what it had gained "
        f"({100 * rise.low:.0f} % to {100 * (rise.high or rise.mean):.0f} %), while {twin} falls.",
        f"They overfit; regularisers of this search: {regularisers}.",
        record.format_run_command(*settings),
        {
            "n": len(curves),
            "best_epoch": median,
            "rise": rise.mean,
            "interval": [rise.low, rise.high],
            "regularisers": present,
        },
    )
