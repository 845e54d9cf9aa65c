"""tuner best."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Look",
    place=3,
    examples=[
        "tuner best digits",
        "tuner best digits --top 3 --json",
        "tuner best digits --metric val_accuracy --mode max",
    ],
)
@click.argument("name")
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
@click.option(
    "--top", type=click.IntRange(min=1), metavar="K", help="Show the K best, the best first."
)
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

    After `tuner confirm` the confirmed trials come first, ordered by their mean.
    """
    from tuner.experiment.results.best import best_json
    from tuner.experiment.results.known import look_at
    from tuner.experiment.storage import find_experiment
    from tuner.reporting.experiment_text import best_text

    results = look_at(find_experiment(name, storage))
    leaders = best_json(results, top=top or 1, metric=metric, mode=mode)
    shown = leaders if top else leaders[0]
    texts = [best_text(leader, results.accuracy(leader)) for leader in leaders]
    click.echo(json_text(shown) if as_json else "\n\n".join(texts))
    return 0
