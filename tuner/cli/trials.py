"""tuner trials."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Look",
    place=4,
    examples=[
        "tuner trials digits --sort val_loss",
        "tuner trials digits --where 'status == \"failed\"'",
        "tuner trials digits --trial 3",
    ],
)
@click.argument("name")
@click.option("--trial", "trial_id", metavar="ID", help="Show this trial with its curve.")
@options.where("'val_loss < 0.2 and lr > 0.1'")
@options.sort
@options.storage
@options.as_json
def trials(
    name: str,
    trial_id: str | None,
    where: str | None,
    sort: str | None,
    reverse: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """List the trials of experiment NAME, or show one of them.

    EXPR and COLUMN may use the hyperparameters, the metrics of a trial's best epoch, and
    trial_id, status, epochs, epoch, time and error.
    """
    from tuner.experiment.results.rows import arranged
    from tuner.experiment.results.trial_rows import trial_json, trial_rows
    from tuner.reporting.trials_text import trial_text, trials_table

    results = tuner.load_results(name, storage)
    if trial_id is not None:
        trial = results.trial(trial_id)
        shown = json_text(trial_json(results, trial)) if as_json else trial_text(results, trial)
        click.echo(shown)
        return 0
    rows = trial_rows(results)
    rows = [rows[n] for n in arranged(rows, where=where, sort=sort, reverse=reverse)]
    click.echo(json_text(rows) if as_json else trials_table(rows, results.metric))
    return 0
