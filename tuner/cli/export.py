"""tuner export."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_network
from tuner.errors import UsageError


@click.command(cls=options.Command, section="Hand over", place=1)
@click.argument("name")
@click.option("--to", metavar="DIR", help="A new or empty folder.")
@click.option("--trials", metavar="FILE", help="The table of all trials: a .parquet or .csv file.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(("onnx", "torch-export")),
    multiple=True,
    help="Beside the weights; may be repeated.",
)
@options.trial
@options.yes
@options.storage
def export(
    name: str,
    to: str | None,
    trials: str | None,
    formats: tuple[str, ...],
    trial_id: str | None,
    yes: bool,
    storage: str | None,
) -> int:
    """Export the best model of experiment NAME.

    The folder holds weights, config, metrics and a model card: tuner.load_model(DIR) rebuilds the
    model in Python, `tuner evaluate DIR` measures it. Once confirmed, it is the retrained model
    that `tuner best` shows. --trials writes the table of all trials, with --to or without.
    """
    if to is None and (trials is None or formats or trial_id):
        raise UsageError("export needs --to DIR; only the table of --trials FILE goes without")
    results = tuner.load_results(name, storage)
    if trials is not None:
        from tuner.results.tables import write_table

        click.echo(str(write_table(results.dataframe(), trials)))
    if formats:
        admit_network(results, yes=yes)  # a format is written of the model, which its code builds
    if to is not None:
        click.echo(str(tuner.export_model(results, to, trial_id=trial_id, formats=formats)))
    return 0
