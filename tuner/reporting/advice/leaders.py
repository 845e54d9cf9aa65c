"""Findings on the leaders: whether they differ at all, and how far validation flatters them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt

import numpy as np

from tuner.experiment.events import COMPLETED
from tuner.experiment.results.accuracy import build_accuracy
from tuner.experiment.results.confirmation import drop_seed
from tuner.experiment.results.statistics import compute_differences, compute_mean
from tuner.reporting.advice.effects import estimate_effects
from tuner.reporting.advice.finding import Finding
from tuner.reporting.advice.record import SearchRecord
from tuner.wording import format_number

_LEADING = 5  # trials whose differences count
_EXPLAINED = 0.3  # R^2 of the better half, below which its differences count as noise
_MOST_SEEDS = 30
_FEWEST = 4
_MOST = 10  # whole trials that a small validation split may flatter
_LUCK = 0.5  # share of their variance
_LEAST_DROP = 0.003
_LEAST_DROP_OF_ALIKE = 0.01  # where the strategy learns, so that its leaders are alike
_FINEST = 1e-3  # difference between accuracies that is worth images
_POWER = 1.96 + 0.84  # quantiles of a test at 5 % with a power of 80 %


def count_needed_seeds(sd: float, difference: float) -> int:
    """How many seeds of each of two configs show a difference, at 5 % with a power of 80 %.

    sd: of one seed's value. At least 2.

    >>> count_needed_seeds(0.01, 0.01), count_needed_seeds(0.01, 0.1)
    (16, 2)
    """
    return max(2, ceil(2 * (_POWER * sd / difference) ** 2))


def check_leaders(record: SearchRecord) -> Iterator[Finding]:
    """The findings on the leaders."""
    if record.confirmation is not None:
        groups = [leader.values for leader in record.confirmation.leaders]
        yield from _check_ties(
            record, [values for values in groups if len(values) > 1], "confirmed"
        )
    elif groups := _group_by_config(record):
        yield from _check_ties(record, groups, "repeated")
    else:
        yield from _check_seed_noise(record)
    yield from _check_validation_size(record)
    if (best := record.accuracy) and best.no_gain:
        yield Finding(
            "default",
            "medium",
            best.no_gain,
            "Keep the default config, unless fresh seeds show that the best is better.",
            f"tuner confirm {record.name} --top {_LEADING}",
            best.as_dict(),
        )
    if len(record.tested) > 1:
        yield Finding(
            "test_reused",
            "high",
            f"The test split was measured for {len(record.tested)} trials.",
            "The best of several test results is optimistic: choose by validation, and report the "
            "test result of that trial alone.",
            f"tuner best {record.name}",
            {"n": len(record.tested), "trials": list(record.tested)},
        )


def _group_by_config(record: SearchRecord) -> list[dict[int, float]]:
    """seed -> value of the configs that trained with several seeds."""
    groups: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for trial in record.trials:
        if trial.best is not None:
            config = repr(sorted(drop_seed(trial.config).items()))
            seed = trial.find_seed(record.spec.seed)
            groups[config][0 if seed is None else seed] = trial.best.value
    return [values for values in groups.values() if len(values) > 1]


def _check_ties(
    record: SearchRecord, groups: Sequence[Mapping[int, float]], how: str
) -> Iterator[Finding]:
    """Whether the best mean over seeds is apart from the others, and how many seeds would do."""
    if len(groups) < 2:
        return
    ordered = sorted(
        groups, key=lambda v: record.objective.compute_loss(sum(v.values()) / len(v))
    )
    best, *others = ordered[:_LEADING]
    differences = [
        d for d in compute_differences(others, best) if d and d.sd is not None
    ]
    close = sorted(
        (d for d in differences if not d.is_settled), key=lambda d: abs(d.mean)
    )
    if not close:
        return
    nearest = close[0]
    top = len(close) + 1
    gap = abs(nearest.mean)
    spreads = [compute_mean(list(values.values())).sd or 0.0 for values in ordered]
    variance = sum(spread**2 for spread in spreads) / len(spreads)
    sd = sqrt(variance)
    needed = count_needed_seeds(sd, gap) if gap > 0 else _MOST_SEEDS + 1
    if needed <= _MOST_SEEDS:
        meaning = f"{needed} seeds would show such a difference."
        command = f"tuner confirm {record.name} --top {top} --seeds {needed}"
    else:
        meaning = f"It takes more than {_MOST_SEEDS} seeds: treat them as equal, take the cheapest."
        command = f"tuner best {record.name} --top {top}"
    interval = [nearest.low or 0.0, nearest.high or 0.0]
    yield Finding(
        "tied",
        "medium",
        f"{top} {how} configs cannot be told apart: the nearest differs from the best by "
        f"{format_number(gap)} ({' to '.join(map(format_number, interval))}; {nearest.n} seeds), "
        f"and seeds of one config by {format_number(sd)} (sd).",
        meaning,
        command,
        {
            "gap": gap,
            "interval": interval,
            "sd": sd,
            "n": nearest.n,
            "seeds": needed,
        },
    )


def _check_seed_noise(record: SearchRecord) -> Iterator[Finding]:
    """Whether the differences within the better half look like noise of seeds.

    Hyperparameters that explain little of them leave noise, or effects that no quadratic has.
    """
    if record.spec.search.learns:  # its better trials are alike on purpose
        return
    half = record.list_leaders(0.5, 20)
    effects = estimate_effects(record, half)
    if not effects.singles or effects.total >= _EXPLAINED:
        return
    cost_N = record.cost_N[half]
    gap = float(cost_N[: _LEADING + 1].max() - cost_N[0])
    sd = float(np.subtract(*np.quantile(cost_N, [0.75, 0.25]))) / 1.349
    sd *= sqrt(1 - max(effects.total, 0.0))
    if sd <= 0:
        return
    needed = min(count_needed_seeds(sd, gap) if gap > 0 else _MOST_SEEDS, _MOST_SEEDS)
    yield Finding(
        "unconfirmed",
        "medium",
        f"The hyperparameters explain {100 * max(effects.total, 0):.0f} % of the differences "
        f"between the better {effects.n} trials; the best six differ by {format_number(gap)}, and "
        f"what is not explained by {format_number(sd)} (sd).",
        f"Their order is probably chance of the seed; {needed} seeds would show such a difference.",
        f"tuner confirm {record.name} --top {_LEADING} --seeds {needed}",
        {
            "explained": effects.total,
            "n": effects.n,
            "gap": gap,
            "sd": sd,
            "seeds": needed,
        },
    )


def _check_validation_size(record: SearchRecord) -> Iterator[Finding]:
    """Whether the validation split is too small for the differences between the leaders.

    The chance error of an accuracy is binomial. Its share of the variance between the ten best
    whole trials is the share of the best one's lead that is luck (the winner's curse).
    """
    trials = [record.trials[n] for n in record.order_N]
    values = [t.best.value for t in trials if t.best and t.status == COMPLETED][:_MOST]
    if record.objective.metric != "val_accuracy" or len(values) < _FEWEST:
        return
    if not all(0 <= value <= 1 for value in values):
        return
    mean = compute_mean(values)
    metrics = {"val_accuracy": values[0]}
    among = len(record.trials)
    best = build_accuracy("val_accuracy", metrics, record.validation, among=among)
    if best is None or not 0 < mean.mean < 1 or not mean.sd:
        return
    chance_variance = mean.mean * (1 - mean.mean) / best.images
    luck = min(1.0, chance_variance / mean.sd**2)
    drop = luck * (values[0] - mean.mean)
    difference = max(values[0] - values[:_LEADING][-1], _FINEST)
    least = _LEAST_DROP_OF_ALIKE if record.spec.search.learns else _LEAST_DROP
    if luck < _LUCK or drop < least:
        return
    low, high = best.interval
    images = ceil(2 * mean.mean * (1 - mean.mean) * (_POWER / difference) ** 2)
    yield Finding(
        "validation_small",
        "medium",
        f"val_accuracy {format_number(values[0])} on {best.images:,} images has an interval of "
        f"{format_number(low)} to {format_number(high)}; the best {mean.n} whole trials lie "
        f"between {format_number(values[-1])} and {format_number(values[0])}.",
        f"Luck is {100 * luck:.0f} % of what separates them: expect the best to drop by "
        f"{format_number(drop)}. About {images:,} images show {format_number(difference)}.",
        f"tuner confirm {record.name} --top {_LEADING}",
        {
            "accuracy": values[0],
            "images": best.images,
            "interval": [low, high],
            "n": mean.n,
            "luck": luck,
            "expected_drop": drop,
            "images_needed": images,
        },
    )
