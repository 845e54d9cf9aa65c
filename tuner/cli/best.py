"""tuner best."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Look", place=3)
@click.argument("name")
@click.option("--metric", help="[default: the experiment's]")
@click.option("--mode", type=click.Choice(["min", "max"]), help="[default: the experiment's]")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="The K best, best first.")
@options.storage
@options.as_json
def best(
    name: str,
    metric: str | None,
    mode: str | None,
    top: int | None,
    storage: str | None,
    as_json: bool,
) -> int:
    """Show the best trial of experiment NAME, or the K best.

    Once the leaders are confirmed, they come first, by their means.
    """
    from tuner.record.storage import find_experiment
    from tuner.reporting.experiment_text import best_text
    from tuner.results.best import best_json
    from tuner.results.known import look_at

    results = look_at(find_experiment(name, storage))
    leaders = best_json(results, top=top or 1, metric=metric, mode=mode)
    shown = leaders if top else leaders[0]
    click.echo(json_text(shown) if as_json else "\n\n".join(map(best_text, leaders)))
    return 0
