"""tuner confirm."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.printing import print_confirmation


@click.command(
    cls=options.Command,
    section="Explain",
    place=3,
    examples=["tuner confirm digits --top 2 --seeds 3"],
)
@click.argument("name")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="K",
    help="Retrain the K best trials.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Retrain each of them with N fresh seeds.",
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
    """Retrain the best trials of NAME with fresh seeds.

    The trial with the best mean on the validation split wins; the test split is measured once, for
    that one. From then on best, export and evaluate use it.
    """
    results = tuner.load_results(name, storage)
    admit_experiment(results, yes=yes, trains_only=True)
    confirmation = tuner.confirm(results, top=top, seeds=seeds, address=address)
    return print_confirmation(confirmation, evaluate=evaluate, as_json=as_json)
