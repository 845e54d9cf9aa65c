"""tuner rename."""

from __future__ import annotations

import click

from tuner.cli import options


@click.command(cls=options.Command, section="Keep", place=3)
@click.argument("name")
@click.argument("new", metavar="NEW_NAME")
@options.storage
def rename(name: str, new: str, storage: str | None) -> int:
    """Rename experiment NAME within its storage.

    An experiment that is running is refused.
    """
    from tuner.experiment.results import renaming
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import find_experiment

    renamed = renaming.rename(Described(find_experiment(name, storage)), new)
    click.echo(renamed.files.location)
    return 0
