"""Commands that show experiments and trials: ls, show, best and trials."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.printing import format_json

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results


@options.command(
    "Look",
    1,
    "tuner ls --tag baseline",
    "tuner ls --where 'val_loss < 0.2 and strategy == \"random\"' --sort best",
    "tuner ls --columns name,best,time,note",
)
@options.where("'val_loss < 0.2', 'started > \"2026-11\"'")
@click.option("--tag", metavar="TAG", help="Show only those with this tag.")
@options.sort
@click.option(
    "--columns",
    metavar="A,B",
    help="Show these columns, as in name,best,strategy,time,note.",
)
@options.storage_and_json
def ls(columns: str | None, storage: str | None, as_json: bool, **chosen: Any) -> None:
    """List the experiments in the storage, oldest first."""
    from tuner.experiment.results.listing import find, list_experiments
    from tuner.experiment.results.rows import check_names
    from tuner.reporting.experiment_tables import format_experiments

    listed = list_experiments(storage)
    names = columns.split(",") if columns else None
    check_names(names or [], [experiment.build_row() for experiment in listed])
    matches = find(listed, **chosen)
    if as_json:
        click.echo(format_json([experiment.as_dict() for experiment in matches]))
    elif listed and not matches:
        click.echo("no experiment matches")
    else:
        click.echo(format_experiments(matches, names))


@options.command("Look", 2)
@click.option(
    "--follow", is_flag=True, help="Keep showing it until it ends or you press Ctrl-C."
)
@options.experiment
@options.as_json
def show(results: Results, follow: bool, as_json: bool) -> None:
    """Show the status of experiment NAME, and its best trial."""
    from tuner.experiment.events import RUNNING
    from tuner.experiment.results.confirmation import find_refit, show_json
    from tuner.experiment.results.measured_tests import read_best_test
    from tuner.experiment.results.results import Results
    from tuner.reporting import live_view, terminal
    from tuner.reporting.experiment_text import format_summary

    if follow:
        terminal.follow_search(results)
        results = Results(results.folder)
    shown = show_json(results)
    if as_json:
        click.echo(format_json(shown))
    elif results.status == RUNNING:
        click.echo(live_view.format_status(results, now=time.time()))
    else:
        refit = find_refit(results)
        click.echo(
            format_summary(
                results,
                read_best_test(refit or results),
                confirmed=shown.get("confirmed"),
                refit=refit,
            )
        )


@options.command(
    "Look",
    3,
    "tuner best digits",
    "tuner best digits --top 3 --json",
    "tuner best digits --metric val_accuracy --mode max",
)
@click.option(
    "--metric",
    metavar="METRIC",
    help="Compare trials by this metric.  [default: the experiment's objective]",
)
@click.option(
    "--mode",
    type=click.Choice(["min", "max"]),
    help="Whether less or more of it is better.  [default: the experiment's]",
)
@options.count("--top", "K", help="Show the K best, the best first.")
@options.experiment
@options.as_json
def best(
    results: Results,
    metric: str | None,
    mode: str | None,
    top: int | None,
    as_json: bool,
) -> None:
    """Show the best trial of experiment NAME, or the K best.

    With several objectives the best is that of the first, and the front follows: the trials of
    which none is better in every objective. After `tuner confirm` the confirmed trials come first,
    ordered by their mean.
    """
    from tuner.experiment.results.confirmation import describe_best
    from tuner.reporting.experiment_text import format_best_trial
    from tuner.reporting.trial_tables import format_front

    leaders = describe_best(results, top=top or 1, metric=metric, mode=mode)
    by = metric or results.metric
    texts = [
        format_best_trial(leader, results.compute_accuracy(leader), by)
        for leader in leaders
    ]
    front = [] if top or metric or not results.objective.others else results.front
    if front:
        leaders[0]["front"] = [results.describe_best(trial) for trial in front]
        texts.append(format_front(results))
    shown = leaders if top else leaders[0]
    click.echo(format_json(shown) if as_json else "\n\n".join(texts))


@options.command(
    "Look",
    4,
    "tuner trials digits --sort val_loss",
    "tuner trials digits --where 'status == \"failed\"'",
    "tuner trials digits --trial 3",
)
@click.option(
    "--trial", "trial_id", metavar="ID", help="Show this trial with its curve."
)
@options.where("'val_loss < 0.2 and lr > 0.1'")
@options.sort
@options.experiment
@options.as_json
def trials(
    results: Results, trial_id: str | None, as_json: bool, **chosen: Any
) -> None:
    """List the trials of experiment NAME, or show one of them.

    EXPR and COLUMN may use the hyperparameters, the metrics of a trial's best epoch, and
    trial_id, status, epochs, epoch, time and error.
    """

    from tuner.experiment.results.trial_rows import (
        build_trial_rows,
        describe_trial,
        select_trial_rows,
    )
    from tuner.reporting.trial_tables import format_trial, format_trials

    if trial_id is not None:
        trial = results.trial(trial_id)
        click.echo(
            format_json(describe_trial(results, trial))
            if as_json
            else format_trial(results, trial)
        )
        return
    rows = build_trial_rows(results)
    rows = [rows[n] for n in select_trial_rows(rows, **chosen)]
    click.echo(format_json(rows) if as_json else format_trials(rows, results.objective))
