"""Searches side by side, as plain text for stdout: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from tuner.experiment.results.comparison import RANKED_BY, Comparison, Side
from tuner.experiment.results.statistics import Mean
from tuner.wording import aligned, amount_of, duration, joined, number, printable, with_error


def comparison_text(comparison: Comparison) -> str:
    """What each strategy reached, in all and at equal spending; the verdict; what else differs."""
    sections = [
        [headline(comparison)],
        aligned(entrants_table(comparison)),
        ["On average over the seeds", *aligned(spent_table(comparison))],
        ["Best so far when each had spent as much", *aligned(equal_table(comparison))],
        [fill(line, 80) for line in verdict(comparison)],
        [fill(f"note: {printable(note)}", 80) for note in comparison.notes],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def headline(comparison: Comparison) -> str:
    """What is compared, and by which objective."""
    strategies = [side.label for side in comparison.sides]
    count = sum(len(side.entrants) for side in comparison.sides)
    metric = f"{printable(comparison.objective.metric)} ({comparison.objective.mode})"
    return f"{joined(strategies)} by {metric}, {count} experiments"


def entrants_table(comparison: Comparison) -> list[Sequence[str]]:
    """The head and a row an experiment: what it spent, and reached."""
    rows = [
        (
            printable(entrant.name),
            side.strategy,
            str(entrant.spec.seed),
            number(entrant.curves["trials"].total),
            number(entrant.curves["epochs"].total),
            duration(entrant.curves["seconds"].total),
            "none" if entrant.best is None else number(entrant.best),
        )
        for side in comparison.sides
        for entrant in side.entrants
    ]
    return [("NAME", "STRATEGY", "SEED", "TRIALS", "EPOCHS", "TIME", "BEST"), *rows]


def spent_table(comparison: Comparison) -> list[Sequence[str]]:
    """The head and a row a strategy: what its experiments spent on average, and reached."""
    rows = [
        (
            side.label,
            str(len(side.entrants)),
            number(side.spent("trials")),
            number(side.spent("epochs")),
            duration(side.spent("seconds")),
            _mean(side.best),
        )
        for side in comparison.sides
    ]
    return [("STRATEGY", "SEEDS", "TRIALS", "EPOCHS", "TIME", "BEST"), *rows]


def equal_table(comparison: Comparison) -> list[Sequence[str]]:
    """The head and a row a strategy: what it had reached at the most that all have spent."""
    spent = comparison.budgets
    head = ("STRATEGY", *(f"AT {_budget(comparison, axis).upper()}" for axis in spent))
    rows = [
        (side.label, *(_mean(side.at(axis, budget)) for axis, budget in spent.items()))
        for side in comparison.sides
    ]
    return [head, *rows]


def verdict(comparison: Comparison) -> Iterator[str]:
    """In sentences: which strategy is ahead at equal epochs, and of which others that is sure."""
    first, others = comparison.sides[0], comparison.sides[1:]
    if not others:
        yield f"All are of one strategy, {first.label}: their spread is that of the seed."
        return
    yield f"After {_budget(comparison, RANKED_BY)} {first.label} is ahead."
    for side in others:
        yield _beside(comparison, first, side)
    if len(others) > 1:
        yield f"The intervals count in that it is the best of {len(others) + 1} strategies."


def _budget(comparison: Comparison, axis: str) -> str:
    """The most that all have spent of `axis`, in words."""
    spent = comparison.budgets[axis]
    return duration(spent) if axis == "seconds" else amount_of(spent, axis.removesuffix("s"))


def _beside(comparison: Comparison, first: Side, side: Side) -> str:
    less = comparison.difference(side)
    if less is None:
        return (
            f"{side.label} has no seed in common with {first.label}: give them equal seeds "
            "to tell them apart."
        )
    behind = f"{abs(less.mean):.2g} behind"
    if less.low is None or less.high is None:
        return (
            f"{side.label} is {behind} with the one seed that both have, which says nothing "
            "about the spread: run more seeds."
        )
    seeds = f"{less.low:+.2g} to {less.high:+.2g} by the 95 % interval over {less.n} paired seeds"
    if less.is_settled:
        return f"{side.label} is {behind}: {seeds}."
    return f"{side.label} cannot be told apart from it: {behind}, {seeds}."


def _mean(mean: Mean | None) -> str:
    return "none" if mean is None else with_error(mean.mean, mean.standard_error)
