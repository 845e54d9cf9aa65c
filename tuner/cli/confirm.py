"""tuner confirm."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.printing import print_confirmation


@click.command(cls=options.Command, section="Explain", place=3)
@click.argument("name")
@click.option(
    "--top", type=click.IntRange(min=1), default=3, show_default=True, help="Leaders to retrain."
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Fresh seeds of each."
)
@options.address
@options.evaluate
@options.yes
@options.storage
@options.as_json
def confirm(
    name: str,
    top: int,
    seeds: int,
    address: str,
    evaluate: bool,
    yes: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """Retrain the leaders of NAME with fresh seeds.

    Mean and spread over the seeds decide. Selection stays on the validation split; the test split
    is measured once, for the chosen one.
    """
    results = tuner.load_results(name, storage)
    admit_experiment(results, yes=yes, trains_only=True)
    confirmation = tuner.confirm(results, top=top, seeds=seeds, address=address)
    return print_confirmation(confirmation, evaluate=evaluate, as_json=as_json)
