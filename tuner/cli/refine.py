"""tuner refine."""

from __future__ import annotations

from pathlib import Path

import click

import tuner
from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Explain", place=4)
@click.argument("name")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="P",
    help="Try P values of each continuous hyperparameter.",
)
@click.option("--to", metavar="FILE", help="The new .yaml file.  [default: NAME-refined.yaml]")
@options.storage
@options.as_json
def refine(name: str, points: int, to: str | None, storage: str | None, as_json: bool) -> int:
    """Write a grid search around the best trials of NAME.

    It is a YAML file for `tuner run`, which you can read and change first.
    """
    from tuner.experiment.results import refinement
    from tuner.reporting.plan_text import refinement_json, refinement_text

    results = tuner.load_results(name, storage)
    refined = refinement.refine(results, points=points)
    path = refinement.write_refined(refined, Path(to) if to else None)
    if as_json:
        click.echo(json_text(refinement_json(refined, path)))
    else:
        click.echo(refinement_text(refined, path, results.document["spec"]["search"]["space"]))
    return 0
