"""A confirmation as text for stdout: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

from tuner.experiment.results.confirmation import Confirmation
from tuner.experiment.results.statistics import Mean
from tuner.places import format_path
from tuner.reporting.commands import format_experiment_name
from tuner.reporting.experiment_text import format_failures, format_model
from tuner.wording import (
    clean_text,
    find_program,
    format_mean,
    format_number,
    format_rows,
    join_names,
    join_sections,
)


def format_confirmation(
    confirmation: Confirmation, test: Mapping[str, Any] | None
) -> str:
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
    name = clean_text(confirmation.confirms.name)
    return f"{name}: {leaders} retrained with {with_seeds}, {goal}"


def build_leaders_table(confirmation: Confirmation) -> list[tuple[str, ...]]:
    """The head, and a row for each leader: its values, and its difference to the first."""
    head = ("TRIAL", "SEARCHED", "CONFIRMED", "SEEDS", "LESS THE FIRST", "APART")
    rows: list[tuple[str, ...]] = [head]
    for leader in confirmation.leaders:
        mean = leader.mean
        less = leader.difference
        seeds = str(len(leader.values))
        confirmed = (
            format_mean(mean.mean, mean.standard_error) if mean else "all failed"
        )
        interval = _format_interval(less) if less else ""
        apart = ("yes" if less.is_settled else "no") if less else ""
        rows.append(
            (
                leader.trial_id,
                format_number(leader.searched),
                confirmed,
                seeds,
                interval,
                apart,
            )
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
        f"The search's best, trial {best.trial_id}, showed {metric} "
        f"{format_number(best.searched)} and gives {format_number(best.mean.mean)} on average: "
        f"the search {by}."
    )


def _format_confirmed_model(
    confirmation: Confirmation, test: Mapping[str, Any]
) -> list[str]:
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
        *format_model(
            metrics, leader.config, test, confirmation.results.compute_accuracy(best)
        ),
        "",
        f"Results      {clean_text(format_path(folder))}",
        f"Hand over    {find_program()} export "
        f"{format_experiment_name(folder.with_name(confirmation.confirms.name))} --to DIR",
    ]


def _format_interval(less: Mean) -> str:
    if less.low is None or less.high is None:
        return f"{less.mean:+.2g}"
    return f"{less.mean:+.2g} ({less.low:+.2g} to {less.high:+.2g})"
