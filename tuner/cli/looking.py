"""Commands that look at experiments, also while they run: ls, show, best, tensorboard."""

from __future__ import annotations

import time

import click

from tuner.cli import options
from tuner.cli.outcome import load, print_json


@click.command(name="ls")
@options.storage
@options.as_json
def list_(storage: str | None, as_json: bool) -> int:
    """List the experiments in the storage folder."""
    from tuner.reporting.tables import experiments_table
    from tuner.results.listing import list_experiments

    listed = list_experiments(storage)
    if as_json:
        print_json([entry.as_dict() for entry in listed])
    else:
        click.echo(experiments_table(listed))
    return 0


@click.command()
@click.argument("name")
@click.option("--follow", is_flag=True, help="Show how it goes until it ends; with Ctrl-C before.")
@options.storage
@options.as_json
def show(name: str, follow: bool, storage: str | None, as_json: bool) -> int:
    """Show how experiment NAME stands and its best trial."""
    from tuner.record.events import RUNNING
    from tuner.reporting import follow as following
    from tuner.reporting.experiment_text import summary
    from tuner.results.best import show_json

    results = load(name, storage)
    if follow:
        following.follow(results)
        results = load(name, storage)
    told = show_json(results)
    if as_json:
        print_json(told)
    elif results.status == RUNNING:
        click.echo(following.standing(results, now=time.time()))
    else:
        click.echo(summary(results, confirmed=told.get("confirmed")))
    return 0


@click.command()
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
    from tuner.reporting.experiment_text import best_text
    from tuner.results.best import best_json

    found = best_json(load(name, storage), top=top or 1, metric=metric, mode=mode)
    if as_json:
        print_json(found if top else found[0])
    else:
        click.echo("\n\n".join(map(best_text, found)))
    return 0


@click.command()
@click.argument("name")
@click.option("--port", type=int, default=6006, show_default=True)
@options.storage
def tensorboard(name: str, port: int, storage: str | None) -> int:
    """Open TensorBoard on experiment NAME, on this machine only."""
    from tuner.record.remote.mirror import curves_followed
    from tuner.reporting.tensorboard_server import serve

    results = load(name, storage)
    with curves_followed(results.folder):
        return serve(results.folder, port=port)
