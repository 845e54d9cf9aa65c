"""Commands that judge the leaders of a search: confirm, refine."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import options
from tuner.cli.outcome import announce_code, finish_confirmation, load, print_json


@click.command()
@click.argument("name")
@click.option(
    "--top", type=click.IntRange(min=1), default=3, show_default=True, help="Leaders to retrain."
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Fresh seeds of each."
)
@options.address
@options.evaluate
@options.storage
@options.as_json
def confirm(
    name: str,
    top: int,
    seeds: int,
    address: str,
    evaluate: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """Retrain the leaders of NAME with fresh seeds.

    Mean and spread over the seeds decide. Selection stays on the validation split; the test split
    is measured once, for the chosen one.
    """
    from tuner.search.confirm import confirm as retrain

    results = load(name, storage)
    announce_code(results)
    confirmation = retrain(results, top=top, seeds=seeds, address=address)
    return finish_confirmation(confirmation, evaluate=evaluate, as_json=as_json)


@click.command()
@click.argument("name")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="P",
    help="Values of each continuous domain.",
)
@click.option("--to", metavar="FILE", help="A new .yaml file.  [default: NAME-refined.yaml]")
@options.storage
@options.as_json
def refine(name: str, points: int, to: str | None, storage: str | None, as_json: bool) -> int:
    """Write a grid around the leading trials of NAME.

    The file is an experiment for `tuner run`; look at it, change it, run it.
    """
    from tuner.reporting.plan_text import refinement_json, refinement_text
    from tuner.results.refinement import refine as narrow
    from tuner.results.refinement import write_refined

    results = load(name, storage)
    found = narrow(results, points=points)
    path = write_refined(found, Path(to) if to else None)
    if as_json:
        print_json(refinement_json(found, path))
    else:
        click.echo(refinement_text(found, path, results.spec["search"]["space"]))
    return 0
