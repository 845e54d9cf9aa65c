"""Findings on the search space: edges, wasted parts, useless hyperparameters, interactions."""

# N trials

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor, log10

import numpy as np

from tuner.experiment.results.refinement import narrow_space
from tuner.experiment.results.statistics import wilson
from tuner.reporting.advice.divergence import check_divergence
from tuner.reporting.advice.effects import (
    Effects,
    build_terms,
    compute_normal_scores,
    estimate_effects,
)
from tuner.reporting.advice.finding import Finding, format_share
from tuner.reporting.advice.record import SearchRecord
from tuner.spec.plain_values import flatten
from tuner.spec.space.domains import (
    Choice,
    Domain,
    Numeric,
    Value,
    format_literal,
    round_float,
)
from tuner.spec.space.encoding import Column
from tuner.spec.space.spaces import format_space
from tuner.wording import format_number

FEWEST = 40  # trials, below which nothing is said of a domain
_LEADING = 0.25, 10  # share of the trials, and how many at least
# Chance of a finding where nothing matters, shared among the hyperparameters
_ALPHA = 0.01
_ALPHA_OF_HALF = 0.05  # the same, of leaders in a half, which alone is no finding
_NEAR = 0.15  # of the leaders' span: how near they come to the end of a domain
_END = 0.03  # of a domain's width, where a search that learns ends up
_MOST_IN_END = 0.65  # of its leaders, at least
_RESAMPLES = 200
_MOST_AT_END = 0.9  # of the resamples
_WASTED = 0.65  # of a domain's width
_TRIMMED = 0.04  # of the leaders at each end
_HOPELESS = 0.9  # of the way from the best cost to the worst that did not diverge
_MOST_HOPELESS = 0.4  # of the trials outside, at least
_EXPLAINED = 0.3  # R^2 of all hyperparameters, below which none is called useless
_USELESS = 0.2  # partial R^2
_NO_EFFECT = 0.05  # p-value


def check_space(record: SearchRecord) -> Iterator[Finding]:
    """The findings on the space; of few trials, how many are needed.

    The trials of a search that learns are no sample of its space: then only edges count.
    """
    divergence = list(check_divergence(record))
    yield from divergence
    if len(record.trials) < FEWEST:
        yield _suggest_more_trials(
            record, len(record.trials), FEWEST, "where good values lie"
        )
        return
    for d, column in record.searched:
        yield from _check_edge(record, d, column)
    if record.spec.search.learns:
        return
    wasted = [
        finding
        for d, column in record.searched
        for finding in _check_waste(record, d, column)
    ]
    yield from wasted
    if not divergence and not wasted:  # these hide the effects of the others
        yield from _check_effects(record, estimate_effects(record))


def _suggest_more_trials(
    record: SearchRecord, n: int, needed: int, what: str
) -> Finding:
    return Finding(
        "few_trials",
        "open",
        f"{n} trials say too little about {what}; about {needed} do.",
        "A resume adds them to this search.",
        f"tuner resume {record.name} --add-samples {needed - n}",
        {"n": n, "needed": needed},
    )


def _check_edge(record: SearchRecord, d: int, column: Column) -> Iterator[Finding]:
    """Whether the best quarter of the trials pile up at an end of a domain.

    Trials drawn at random: a binomial test of how many lie in that half of the domain; that they
    come near its end; and that the optimum of a regression on the better half of the trials lies
    there in most resamples. Those of a search that learns: most of them lie at the end itself.
    """
    from scipy.special import bdtrc

    u = record.u_ND[record.list_leaders(*_LEADING), d]
    u = u[~np.isnan(u)]
    if column.categories or not len(u):
        return
    side = "lower" if np.mean(u) < 0.5 else "upper"
    learns = record.spec.search.learns
    u = u if side == "lower" else 1 - u
    width = _END if learns else 0.5
    hits = int((u < width).sum())
    n = len(u)
    domain = extend_domain(column.domain, side)
    low, high = wilson(hits / n, n)
    p = float(bdtrc(hits - 1, n, width)) if hits else 1.0
    bound = format_number(column.domain.compute_value(0.0 if side == "lower" else 1.0))
    at_end = 1.0
    fitted = ""
    if (
        domain is None
        or p > _ALPHA_OF_HALF / len(record.searched)
        or (learns and low < _MOST_IN_END)
    ):
        return
    if not learns:
        is_near = u.min() <= _NEAR * np.ptp(u) or column.centres_C is not None
        at_end = _estimate_end_share(record, d, side) if is_near else 0.0
        fitted = f", and the best fitted value is its end in {100 * at_end:.0f} % of resamples"
    if at_end < _MOST_AT_END or not _is_legal(record, column.path, domain):
        return
    yield Finding(
        "edge",
        "high",
        f"{hits} of the best {n} trials have {column.path} in the {side} {100 * width:.0f} % of "
        f"its domain, which ends at {bound} ({format_share(low, high)}){fitted}.",
        f"The best value probably lies beyond {bound}: extend that side.",
        record.format_run_command(f"search.space.{column.path}={domain}"),
        {
            "hyperparameter": column.path,
            "side": side,
            "hits": hits,
            "n": n,
            "p": p,
            "interval": [low, high],
            "optimum_at_end": at_end,
            "domain": str(domain),
        },
    )


def _estimate_end_share(record: SearchRecord, d: int, side: str) -> float:
    """Of resamples of the better half of the trials, the share with the fitted best at that end."""
    half = record.list_leaders(0.5, 20)
    y_N = compute_normal_scores(record.cost_N[half])
    others = [
        build_terms(c, record.u_ND[half, e]) for e, c in record.searched if e != d
    ]
    centred_N = np.nan_to_num(record.u_ND[half, d], nan=0.5) - 0.5
    x_NC = np.column_stack([centred_N, centred_N**2, np.ones(len(half)), *others])
    grid = np.linspace(-0.5, 0.5, 21)
    rng = np.random.default_rng(0)
    optima = []
    for _ in range(_RESAMPLES):
        rows = rng.integers(len(half), size=len(half))
        slope, bend, *_ = np.linalg.lstsq(x_NC[rows], y_N[rows], rcond=None)[0]
        optima.append(grid[np.argmin(slope * grid + bend * grid**2)])
    ends = np.array(optima) if side == "upper" else -np.array(optima)
    return float(np.mean(ends > 0.44))


def extend_domain(domain: Domain, side: str) -> Domain | None:
    """The domain with one side further out, to two digits; None where it ends.

    A range grows by half its width, an ordered choice by one value. Numbers of one sign keep it,
    and numbers from 0 to 1 stay within these bounds.
    """
    is_lower = side == "lower"
    if isinstance(domain, Choice):
        return _extend_choice(domain, is_lower=is_lower)
    assert isinstance(domain, Numeric)
    end = domain.first if is_lower else domain.last
    reach = (domain.last - domain.first) / (-2 if is_lower else 2)
    if domain.log:
        factor = max((domain.last / domain.first) ** 0.5, 2.0)
        further = end / factor if is_lower else end * factor
    else:
        further = _clip_extension(end, end + reach, domain.first, domain.last)
    if further == end:
        return None
    if domain.step is not None:
        further = _round_to_step(end, further, domain.step)
        further = round(further) if domain.integer else further
    elif domain.log:
        further = float(f"{further:.2g}")
    else:
        further = _round_to_digits(end, further)
    if further == end:
        return None
    if is_lower:
        return replace(domain, lower=further, prior=None)
    if domain.integer:  # whose upper bound may be exclusive
        further += round(domain.upper - end)
    return replace(domain, upper=further, prior=None)


def _extend_choice(domain: Choice, *, is_lower: bool) -> Choice | None:
    values = domain.values
    end, neighbour = values[:2] if is_lower else values[:-3:-1]
    further = end * end / neighbour if end * neighbour > 0 else 2 * end - neighbour
    further = _clip_extension(end, further, min(values), max(values))
    if all(isinstance(value, int) for value in values):
        further = round(_round_to_step(end, further, 1))
    elif further != end:
        further = _round_to_digits(end, further)
    if further == end:
        return None
    return Choice((further, *values) if is_lower else (*values, further))


def _clip_extension(end: float, further: float, least: float, most: float) -> float:
    """`further`, beyond an end of the numbers from `least` to `most`, where it may be legal."""
    if (least >= 0 or most <= 0) and further * end <= 0:
        return end / 2
    return min(further, 1 - (1 - most) / 4) if least >= 0 and most <= 1 else further


def _round_to_step(end: float, further: float, step: float) -> float:
    """`further`, rounded towards `end` to a multiple of `step`."""
    to = floor if further > end else ceil
    return round_float(to(round_float(further / step)) * step)


def _round_to_digits(end: float, further: float) -> float:
    """`further` to two digits of its distance from `end` or, if that is less, from 0."""
    size = min(abs(further), abs(further - end))
    return round_float(round(further, 1 - floor(log10(size))))


def _is_legal(record: SearchRecord, path: str, domain: Domain) -> bool:
    for value in domain.list_extremes():
        changed: Value = value
        for name in reversed(path.split(".")):
            changed = {name: changed}
        if not record.can_train(changed):
            return False
    return True


def _check_waste(record: SearchRecord, d: int, column: Column) -> Iterator[Finding]:
    """Whether most of a domain is hopeless, while the best trials lie in a small part of it.

    The best quarter count, except outliers. Hopeless are trials that diverged, or whose cost is
    among the worst tenth of the range of the others, as at chance. A hyperparameter that matters
    most has its best trials in a small part, too, but few hopeless ones.
    """
    leaders = [
        n for n in record.list_leaders(*_LEADING) if not np.isnan(record.u_ND[n, d])
    ]
    if column.centres_C is not None or len(leaders) < _LEADING[1]:
        return
    first, last = np.quantile(record.u_ND[leaders, d], [_TRIMMED, 1 - _TRIMMED])
    kept = float(last - first)
    u_N = record.u_ND[:, d]
    outside_N = (u_N < first) | (u_N > last)
    usual = record.cost_N[~record.diverged_N]
    worst = usual.min() + _HOPELESS * np.ptp(usual)
    bad_N = outside_N & (record.diverged_N | (record.cost_N >= worst))
    bad = int(bad_N.sum())
    outside = int(outside_N.sum())
    k = len(leaders)
    if (
        kept > 1 - _WASTED
        or outside == 0
        or wilson(bad / outside, outside)[0] < _MOST_HOPELESS
    ):
        return
    configs = [record.trials[n].config for n in leaders]
    domain = flatten(
        format_space(narrow_space(record.spec.search.space, configs)), "."
    )[column.path]
    low, high = (
        format_number(column.domain.compute_value(float(end))) for end in (first, last)
    )
    yield Finding(
        "wasted",
        "medium",
        f"The best {k} of {len(record.trials)} trials have {column.path} between {low} and {high} "
        f"(all but {100 * _TRIMMED:.0f} % at each end); of the {outside} trials in the other "
        f"{100 * (1 - kept):.0f} % of its domain {bad} are hopeless.",
        "A narrower domain spends the trials where the good ones are.",
        record.format_run_command(f"search.space.{column.path}={domain}"),
        {
            "hyperparameter": column.path,
            "wasted": 1 - kept,
            "outside": outside,
            "hopeless": bad,
            "n": len(record.trials),
            "best": k,
            "domain": domain,
        },
    )


def _check_effects(record: SearchRecord, effects: Effects) -> Iterator[Finding]:
    """The first pair that matters only together; without one, useless hyperparameters."""
    if not effects.singles and record.searched:
        yield _suggest_more_trials(
            record, effects.n, effects.needed, "what each hyperparameter does"
        )
    for pair in effects.pairs:
        a, b = pair.names
        alone = min(
            (e for e in effects.singles if e.names[0] in pair.names), key=lambda e: -e.p
        )
        if pair.p < _ALPHA / len(effects.pairs) and alone.p > _NO_EFFECT:
            yield Finding(
                "interaction",
                "low",
                f"{a} and {b} matter together (partial R2 {pair.share:.2f}, p {pair.p:.1g}), while "
                f"{alone.names[0]} alone does not (p {alone.p:.2g}); {effects.n} trials.",
                "The best value of each depends on the other: see the contours of the report.",
                f"tuner report {record.name}",
                {
                    "hyperparameters": [a, b],
                    "share": pair.share,
                    "p": pair.p,
                    "n": effects.n,
                },
            )
            return
    best = flatten(record.trials[int(record.order_N[0])].config, ".")
    for effect in effects.singles if effects.total >= _EXPLAINED else ():
        name = effect.names[0]
        value = best.get(name)
        if effect.high >= _USELESS or not isinstance(value, bool | int | float | str):
            continue
        yield Finding(
            "useless",
            "low",
            f"{name} explains {100 * effect.share:.0f} % of the differences that remain between "
            f"{effects.n} trials ({format_share(0, effect.high)}).",
            "Fixed at the value of the best trial, it leaves the trials to the others.",
            record.format_run_command(f"search.space.{name}={format_literal(value)}"),
            {
                "hyperparameter": name,
                "share": effect.share,
                "n": effects.n,
                "interval": [0.0, effect.high],
            },
        )
