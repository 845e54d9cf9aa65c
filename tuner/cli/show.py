"""tuner show."""

from __future__ import annotations

import time

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Look", place=2)
@click.argument("name")
@click.option("--follow", is_flag=True, help="Keep showing it until it ends or you press Ctrl-C.")
@options.storage
@options.as_json
def show(name: str, follow: bool, storage: str | None, as_json: bool) -> int:
    """Show the status of experiment NAME, and its best trial."""
    from tuner.experiment.events import RUNNING
    from tuner.experiment.results.baseline import with_interval
    from tuner.experiment.results.best import show_json
    from tuner.experiment.results.known import look_at
    from tuner.experiment.results.test_record import known_test
    from tuner.experiment.storage import find_experiment
    from tuner.reporting import follow as following
    from tuner.reporting.experiment_text import summary

    folder = find_experiment(name, storage)
    results = look_at(folder)
    if follow:
        following.follow(results)
        results = look_at(folder)
    shown = show_json(results)
    test = known_test(results)
    if as_json:
        click.echo(json_text({**shown, "test": with_interval(test)} if test else shown))
    elif results.status == RUNNING:
        click.echo(following.standing(results, now=time.time()))
    else:
        click.echo(summary(results, test, confirmed=shown.get("confirmed")))
    return 0
