"""The answer to `--ask`: the best over all other hyperparameters at each value of one.

This is the isolation plot of Google's Deep Learning Tuning Playbook. More trials of a value have a
better best by chance. So a value is judged by the expected best of as many trials as the rarest one
has (Dodge et al., "Show Your Work", EMNLP 2019), with a bootstrap interval.
"""

# N trials, B resamples

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil

import numpy as np

from tuner.errors import UsageError, build_unknown_fault
from tuner.reporting.advice.finding import Finding
from tuner.reporting.advice.record import SearchRecord
from tuner.spec.space.domains import Choice, Numeric, format_literal
from tuner.spec.space.encoding import Array, Column
from tuner.wording import format_number, join_names

_BINS = 4
_FEWEST = 5  # trials of a value
_RESAMPLES = 1000
_LEVEL = 0.05  # shared among the values that are compared with the best
_MOST = 4  # times the trials so far


@dataclass(frozen=True, slots=True)
class Level:
    """A value or a range of a hyperparameter, as text of a spec; n: its trials.

    expected_best: with an interval of 95 %. behind: by how much it is worse than the best level's,
    with an interval that holds for all levels together.
    """

    value: str
    n: int
    expected_best: float
    interval: tuple[float, float]
    behind: float
    behind_interval: tuple[float, float]


def compare_values(record: SearchRecord, name: str) -> Finding:
    """What the search says of a hyperparameter: a finding of the kind "isolation".

    Raises UsageError for a name that is not searched.
    """
    searched = {column.path: (d, column) for d, column in record.searched}
    if name not in searched:
        raise UsageError(
            str(
                build_unknown_fault(
                    "--ask", "searched hyperparameter", name, [*searched]
                )
            )
        )
    d, column = searched[name]
    groups = _group_costs(record, d, column)
    costs = {value: cost for value, cost in groups.items() if len(cost) >= _FEWEST}
    if len(costs) < 2:
        return Finding(
            "isolation",
            "open",
            f"Fewer than two values of {name} have {_FEWEST} trials.",
            "More trials decide.",
            f"tuner resume {record.name} --add-samples {4 * _BINS * _FEWEST}",
            {"hyperparameter": name, "n": len(record.trials)},
        )
    levels = estimate_levels(record, costs)
    best = min(levels, key=lambda level: level.behind)
    tied = [
        level for level in levels if level is not best and level.behind_interval[0] <= 0
    ]
    estimates = []
    for level in levels:
        expected = format_number(level.expected_best)
        interval = " to ".join(map(format_number, level.interval))
        estimates.append(f"{level.value}: {expected} ({interval}, n {level.n})")
    shown = "; ".join(estimates)
    names = join_names([level.value for level in (best, *tied)])
    return Finding(
        "isolation",
        "open" if tied else "low",
        f"Expected best {record.objective.metric} by {name}, over all else: {shown}.",
        f"{names} cannot be told apart."
        if tied
        else f"{names} is best, beyond chance.",
        _suggest_command(record, column, best, tied),
        {"hyperparameter": name, "levels": [asdict(level) for level in levels]},
    )


def _group_costs(record: SearchRecord, d: int, column: Column) -> dict[str, Array]:
    """The costs of the trials at each value of a choice, or in each quarter of a number's."""
    finite = np.isfinite(record.cost_N)
    worst = record.cost_N[finite].max(initial=0.0)
    cost_N = np.where(finite, record.cost_N, worst)
    u_N = record.u_ND[:, d]
    if isinstance(column.domain, Choice):
        values = column.domain.values
        cell_N = u_N * len(column.domain.values)
        return {
            format_literal(v): cost_N[np.floor(cell_N) == k]
            for k, v in enumerate(values)
        }
    cuts = np.unique(np.nanquantile(u_N, np.linspace(0, 1, _BINS + 1)))
    cuts[-1] = np.nextafter(cuts[-1], 2.0)
    domain = column.domain
    assert isinstance(domain, Numeric)
    costs = {}
    for low, high in pairwise(cuts):
        first, last = (
            float(f"{domain.compute_value(float(u)):.3g}")
            for u in (low, min(high, 1.0))
        )
        if domain.integer:
            first = int(first)
            last = int(last) + 1
        text = str(Numeric(first, last, domain.log, domain.integer))
        inside_N = (u_N >= low) & (u_N < high)
        costs[text] = cost_N[inside_N]
    return costs


def estimate_levels(record: SearchRecord, costs: Mapping[str, Array]) -> list[Level]:
    """The levels of groups of costs, in their order."""
    m = min(map(len, costs.values()))
    rng = np.random.default_rng(0)
    means = []
    draws = []
    for cost in map(np.sort, costs.values()):
        n = len(cost)
        weights = compute_best_weights(n, m)
        rows_B = np.sort(rng.integers(n, size=(_RESAMPLES, n)), axis=1)
        means.append(float(cost @ weights))
        draws.append(cost[rows_B] @ weights)
    best = int(np.argmin(means))
    level = _LEVEL / (len(means) - 1)
    levels = []
    for (value, cost), mean, draws_B in zip(costs.items(), means, draws, strict=True):
        ends = record.objective.sign * np.quantile(
            draws_B, [_LEVEL / 2, 1 - _LEVEL / 2]
        )
        gap_B = draws_B - draws[best]
        gaps = np.quantile(gap_B, [level / 2, 1 - level / 2])
        interval = (float(min(ends)), float(max(ends)))
        behind = (float(gaps[0]), float(gaps[1]))
        expected = record.objective.sign * mean
        levels.append(
            Level(
                value,
                len(cost),
                expected,
                interval,
                mean - means[best],
                behind,
            )
        )
    return levels


def compute_best_weights(n: int, m: int) -> Array:
    """The weights of n sorted values in the mean of the best of m of them, drawn with replacement.

    >>> compute_best_weights(2, 1).tolist(), compute_best_weights(2, 2).tolist()
    ([0.5, 0.5], [0.75, 0.25])
    """
    above = ((n - np.arange(n + 1)) / n) ** m
    return np.asarray(above[:-1] - above[1:])


def _suggest_command(
    record: SearchRecord, column: Column, best: Level, tied: Sequence[Level]
) -> str:
    """The search of the levels that are tied, with the trials that should tell them apart."""
    setting = f"search.space.{column.path}="
    if not tied:
        return record.format_run_command(f"{setting}{best.value}")
    factors = []
    for level in tied:
        reach = level.behind_interval[1] - level.behind
        factors.append((reach / max(level.behind, 1e-300)) ** 2)
    factor = min(max(*factors, 1.0), _MOST)
    levels = (best, *tied)
    count = ceil(factor * sum(level.n for level in levels))
    values = ", ".join(level.value for level in levels)
    domain = (
        f"choice([{values}])" if isinstance(column.domain, Choice) else column.domain
    )
    command = record.format_run_command(f"{setting}{domain}")
    return f"{command} --num-samples {count}"
