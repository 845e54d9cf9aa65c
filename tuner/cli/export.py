"""tuner export."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_network
from tuner.errors import UsageError


@click.command(
    cls=options.Command,
    section="Hand over",
    place=1,
    examples=[
        "tuner export digits --to best_model",
        "tuner export digits --to best_model --format onnx",
        "tuner export digits --trials trials.csv",
    ],
)
@click.argument("name")
@click.option("--to", metavar="DIR", help="Write the model into this folder, new or empty.")
@click.option(
    "--trials",
    metavar="FILE",
    help="Write the table of all trials into this .csv or .parquet file.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(("onnx", "torch-export")),
    multiple=True,
    help="Also write the model in this format. May be given several times.",
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

    The folder holds the weights, the config, the metrics and a model card.
    tuner.load_model(DIR) rebuilds the model in Python, and `tuner evaluate DIR` measures it. After
    `tuner confirm` it is the best of the retrained models.
    """
    if to is None and (trials is None or formats or trial_id):
        raise UsageError("export needs --to DIR; only the table of --trials FILE goes without")
    results = tuner.load_results(name, storage)
    if trials is not None:
        from tuner.experiment.results.tables import write_table

        click.echo(str(write_table(results.dataframe(), trials)))
    if formats:
        admit_network(results, yes=yes)  # a format is written of the model, which its code builds
    if to is not None:
        click.echo(str(tuner.export_model(results, to, trial_id=trial_id, formats=formats)))
    return 0
