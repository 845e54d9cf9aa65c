"""Comparisons and confirmations as text for stdout: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

from tuner.experiment.results.comparison import Comparison, Side
from tuner.experiment.results.confirmation import Confirmation
from tuner.experiment.results.statistics import Mean
from tuner.places import format_path
from tuner.reporting.experiment_text import format_experiment_name, format_failures, format_model
from tuner.wording import (
    clean_text,
    find_program,
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
    rows: list[tuple[str, ...]] = [("NAME", "STRATEGY", "SEED", "TRIALS", "EPOCHS", "TIME", "BEST")]
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
        time = format_duration(sum(entrant.seconds for entrant in side.entrants) / count)
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
    verdict = f"is {behind}:" if less.is_settled else f"cannot be told apart from it: {behind},"
    return (
        f"{side.label} {verdict} {less.low:+.2g} to {less.high:+.2g} by the 95 % interval over "
        f"{less.n} paired seeds."
    )


def _format_mean(mean: Mean | None) -> str:
    return "none" if mean is None else format_mean(mean.mean, mean.standard_error)


def format_confirmation(confirmation: Confirmation, test: Mapping[str, Any] | None = None) -> str:
    """The leaders with their means, the verdict, failures, and the best leader's model."""
    sections = [
        [_format_head(confirmation)],
        format_rows(build_leaders_table(confirmation)),
        [fill(line, 80) for line in format_leaders_verdict(confirmation)],
        format_failures(confirmation.results),
        _format_confirmed_model(confirmation, test or {}),
    ]
    return join_sections(sections)


def _format_head(confirmation: Confirmation) -> str:
    results = confirmation.results
    count = len(confirmation.leaders)
    leaders = "the leader" if count == 1 else f"the {count} leaders"
    seeds = len(confirmation.seeds)
    with_seeds = "one fresh seed" if seeds == 1 else f"{seeds} fresh seeds each"
    goal = f"{clean_text(results.metric)} ({results.mode})"
    return (
        f"{clean_text(confirmation.confirms.name)}: {leaders} retrained with {with_seeds}, {goal}"
    )


def build_leaders_table(confirmation: Confirmation) -> list[tuple[str, ...]]:
    """The head, and a row for each leader: its values, and its difference to the first."""
    head = ("TRIAL", "SEARCHED", "CONFIRMED", "SEEDS", "LESS THE FIRST", "APART")
    rows: list[tuple[str, ...]] = [head]
    for leader in confirmation.leaders:
        mean = leader.mean
        less = leader.difference
        seeds = str(len(leader.values))
        confirmed = format_mean(mean.mean, mean.standard_error) if mean else "all failed"
        interval = _format_interval(less) if less else ""
        apart = ("yes" if less.is_settled else "no") if less else ""
        rows.append(
            (leader.trial_id, format_number(leader.searched), confirmed, seeds, interval, apart)
        )
    return rows


def format_leaders_verdict(confirmation: Confirmation) -> Iterator[str]:
    """Sentences: whether the leaders differ significantly; whether the search was optimistic."""
    first = confirmation.chosen
    others = confirmation.leaders[1:]
    level = "by the 95 % interval of the paired differences at equal seeds"
    equal = [
        leader.trial_id
        for leader in others
        if leader.difference and not leader.difference.is_settled
    ]
    if len(confirmation.seeds) == 1:
        yield "One seed does not show the spread: give --seeds 3 or more to compare leaders."
    elif equal:
        yield (
            f"Trial {first.trial_id} cannot be told apart from {join_names(equal)}, {level}; "
            "it is chosen for its mean."
        )
    elif others:
        yield f"Trial {first.trial_id} is better than the others, {level}."
    best = confirmation.first_searched
    metric = clean_text(confirmation.results.metric)
    if best.mean is None or best.optimism is None:
        yield f"The search's best, trial {best.trial_id}, failed with every fresh seed."
        return
    flattered = confirmation.results.objective.compute_loss(best.optimism) < 0
    by = (
        f"flattered it by {format_number(abs(best.optimism))}"
        if flattered
        else "did not flatter it"
    )
    yield (
        f"The search's best, trial {best.trial_id}, showed {metric} {format_number(best.searched)} "
        "and "
        f"gives {format_number(best.mean.mean)} on average: the search {by}."
    )


def _format_confirmed_model(confirmation: Confirmation, test: Mapping[str, Any]) -> list[str]:
    best = confirmation.describe_best()
    leader = confirmation.chosen
    metrics = {
        name: value
        for name, value in best["metrics"].items()
        if name.startswith("val_") or name == confirmation.results.metric
    }
    folder = confirmation.results.folder
    return [
        f"Confirmed: trial {leader.trial_id}, its model of seed {confirmation.trial.seed}, "
        f"epoch {best['epoch']}",
        *format_model(metrics, leader.config, test, confirmation.results.compute_accuracy(best)),
        "",
        f"Results      {clean_text(format_path(folder))}",
        f"Hand over    {find_program()} export "
        f"{format_experiment_name(folder.with_name(confirmation.confirms.name))} --to DIR",
    ]


def _format_interval(less: Mean) -> str:
    if less.low is None or less.high is None:
        return f"{less.mean:+.2g}"
    return f"{less.mean:+.2g} ({less.low:+.2g} to {less.high:+.2g})"
