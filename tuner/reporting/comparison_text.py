"""A comparison of searches as text for stdout: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from tuner.experiment.results.comparison import Comparison, Side
from tuner.experiment.results.statistics import Mean
from tuner.wording import (
    clean_text,
    format_amount,
    format_duration,
    format_mean,
    format_number,
    format_rows,
    join_names,
    join_sections,
)


def format_comparison(comparison: Comparison) -> str:
    """The results of each strategy, in all and at equal epochs; the verdict; other differences."""
    sections = [
        [format_headline(comparison)],
        format_rows(build_entrants_table(comparison)),
        ["On average over the seeds", *format_rows(build_strategies_table(comparison))],
        [fill(line, 80) for line in format_verdict(comparison)],
        [fill(f"note: {clean_text(note)}", 80) for note in comparison.notes],
    ]
    return join_sections(sections)


def format_headline(comparison: Comparison) -> str:
    strategies = [side.label for side in comparison.sides]
    count = sum(len(side.entrants) for side in comparison.sides)
    metric = f"{clean_text(comparison.objective.metric)} ({comparison.objective.mode})"
    return f"{join_names(strategies)} by {metric}, {count} experiments"


def build_entrants_table(comparison: Comparison) -> list[tuple[str, ...]]:
    """The head, and a row for each experiment: its budget and its best value."""
    rows: list[tuple[str, ...]] = [
        ("NAME", "STRATEGY", "SEED", "TRIALS", "EPOCHS", "TIME", "BEST")
    ]
    for side in comparison.sides:
        for entrant in side.entrants:
            name = clean_text(entrant.name)
            seed = str(entrant.spec.seed)
            spent = (
                format_number(entrant.trials),
                format_number(entrant.epochs),
                format_duration(entrant.seconds),
            )
            best = "none" if entrant.best is None else format_number(entrant.best)
            rows.append((name, side.strategy, seed, *spent, best))
    return rows


def build_strategies_table(comparison: Comparison) -> list[tuple[str, ...]]:
    """The head, and a row of means for each strategy, in all and at equal epochs."""
    budget = format_amount(comparison.budget, "epoch").upper()
    head = ("STRATEGY", "SEEDS", "TRIALS", "EPOCHS", "TIME", "BEST", f"AT {budget}")
    rows: list[tuple[str, ...]] = [head]
    for side in comparison.sides:
        count = len(side.entrants)
        trials = format_number(sum(entrant.trials for entrant in side.entrants) / count)
        epochs = format_number(sum(entrant.epochs for entrant in side.entrants) / count)
        time = format_duration(
            sum(entrant.seconds for entrant in side.entrants) / count
        )
        best = _format_mean(side.best)
        at_budget = _format_mean(side.compute_mean_best(comparison.budget))
        rows.append((side.label, str(count), trials, epochs, time, best, at_budget))
    return rows


def format_verdict(comparison: Comparison) -> Iterator[str]:
    """Sentences: which strategy is ahead at equal epochs, and whether that is significant."""
    first = comparison.sides[0]
    others = comparison.sides[1:]
    if not others:
        yield f"All are of one strategy, {first.label}: their spread is that of the seed."
        return
    yield f"After {format_amount(comparison.budget, 'epoch')} {first.label} is ahead."
    for side in others:
        yield _describe_difference(comparison, first, side)


def _describe_difference(comparison: Comparison, first: Side, side: Side) -> str:
    less = comparison.compute_difference(side)
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
    verdict = (
        f"is {behind}:"
        if less.is_settled
        else f"cannot be told apart from it: {behind},"
    )
    return (
        f"{side.label} {verdict} {less.low:+.2g} to {less.high:+.2g} by the 95 % interval over "
        f"{less.n} paired seeds."
    )


def _format_mean(mean: Mean | None) -> str:
    return "none" if mean is None else format_mean(mean.mean, mean.standard_error)
