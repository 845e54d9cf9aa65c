"""Where trials diverge or fail: the rule of one or two comparisons that says it best."""

# N trials, M comparisons

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tuner.experiment.results.statistics import wilson
from tuner.reporting.advice.finding import Finding, Severity, format_share
from tuner.reporting.advice.record import Mask, SearchRecord
from tuner.spec.space.constraints import format_name
from tuner.spec.space.domains import Choice, format_literal
from tuner.spec.space.encoding import Array

_ALPHA = 0.01  # chance of a rule where trials diverge anywhere
_FEWEST = 5  # diverged trials
_FEWEST_TRIALS = 20
_INSIDE = 0.4  # share of the trials inside of a rule that diverged, at least
_EXPLAINED = 0.5  # share of the diverged trials that lie inside
_WORTH = 7.0  # gain in log likelihood for which a rule has a second comparison


def check_divergence(record: SearchRecord) -> Iterator[Finding]:
    """The rule, if it holds for most trials that diverged, and for few others."""
    bad = int(record.diverged_N.sum())
    n = len(record.trials)
    if bad < _FEWEST or n < _FEWEST_TRIALS:
        return
    rule = find_rule(record)
    if rule is None:
        return
    text, holds_N = rule
    inside = int(holds_N.sum())
    hits = int((holds_N & record.diverged_N).sum())
    if hits < _INSIDE * inside or hits < _EXPLAINED * bad:
        return
    low, high = wilson(bad / n, n)
    low_inside, high_inside = wilson(hits / inside, inside)
    severity: Severity = "low"
    if low > 0.15:
        severity = "high"
    elif low > 0.05:
        severity = "medium"
    yield Finding(
        "diverged",
        severity,
        f"{bad} of {n} trials ({format_share(low, high)}) failed or diverged: {hits} of the "
        f"{inside} with {text} ({format_share(low_inside, high_inside)}), {bad - hits} of the "
        f"other {n - inside}.",
        "Those configs cost time and teach little: leave them out.",
        record.format_run_command(
            f"search.forbid={format_literal([*record.spec.search.forbid, text])}"
        ),
        {
            "diverged": bad,
            "n": n,
            "interval": [low, high],
            "rule": text,
            "inside": inside,
            "hits": hits,
            "interval_inside": [low_inside, high_inside],
        },
    )


def find_rule(record: SearchRecord) -> tuple[str, Mask] | None:
    """The comparison, or two, that separate diverged trials best; None if none does beyond chance.

    The chance of a rule is that of its likelihood ratio, times the number of rules.
    """
    masks = list_comparisons(record)
    bad_N = record.diverged_N.astype(float)
    if not masks:
        return None
    texts = [*masks]
    holds_MN = np.array([*masks.values()], dtype=float)
    hits_M = holds_MN @ bad_N
    inside_M = holds_MN.sum(axis=1)
    gain_M = _compute_gain(hits_M, inside_M, bad_N)
    gain_MM = _compute_gain(
        (holds_MN * bad_N) @ holds_MN.T, holds_MN @ holds_MN.T, bad_N
    )
    chosen = [int(gain_M.argmax())]
    gain = float(gain_M[chosen[0]])
    gain_of_two = float(gain_MM.max())
    if gain_of_two > gain + _WORTH:
        gain = gain_of_two
        chosen = [
            int(m) for m in np.unravel_index(int(gain_MM.argmax()), gain_MM.shape)
        ]
    rules = len(masks) ** len(chosen)
    if gain < np.log(rules / _ALPHA):
        return None
    return (
        " and ".join(texts[m] for m in chosen),
        np.asarray(holds_MN[chosen].all(axis=0)),
    )


def list_comparisons(record: SearchRecord) -> dict[str, Mask]:
    """The comparisons of hyperparameters with some of their values, each with where it holds.

    Numbers are compared with their quantiles, to two digits.
    """
    masks: dict[str, Mask] = {}
    for d, column in record.searched:
        values = record.list_values(column)
        name = format_name(column.path)
        domain = column.domain
        if isinstance(domain, Choice):
            for option in domain.values:
                if isinstance(option, dict):
                    continue
                is_option_N = np.array([value == option for value in values])
                masks[f"{name} == {format_literal(option)}"] = is_option_N
        if column.categories:
            continue
        numbers_N = np.array([np.nan if v is None else float(v) for v in values])
        u_N = record.u_ND[:, d]
        u = u_N[~np.isnan(u_N)]
        levels = np.linspace(0.1, 0.9, 17)
        for quantile in np.quantile(u, levels):
            value = domain.compute_value(float(quantile))
            bound = float(f"{value:.2g}")
            masks[f"{name} > {bound:g}"] = numbers_N > bound
            masks[f"{name} <= {bound:g}"] = numbers_N <= bound
    return masks


def _compute_gain(hits: Array, inside: Array, bad_N: Array) -> Array:
    """The gain in log likelihood of two shares, inside and outside of a rule, over one share.

    0 for rules inside of which trials diverge more rarely.
    """
    bad = float(bad_N.sum())
    n = len(bad_N)

    def compute_log_likelihood(k: Array, n: Array) -> Array:
        p = np.clip(k / np.maximum(n, 1), 1e-12, 1 - 1e-12)
        return np.asarray(k * np.log(p) + (n - k) * np.log(1 - p))

    outside = n - inside
    missed = bad - hits
    within = compute_log_likelihood(hits, inside)
    without = compute_log_likelihood(missed, outside)
    overall = compute_log_likelihood(np.array(bad), np.array(n))
    gain = within + without - overall
    return np.where(hits * outside > missed * inside, gain, 0.0)
