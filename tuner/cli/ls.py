"""tuner ls."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import print_json


@click.command(cls=options.Command, section="Look", place=1)
@options.storage
@options.as_json
def ls(storage: str | None, as_json: bool) -> int:
    """List the experiments in the storage folder."""
    from tuner.reporting.tables import experiments_table
    from tuner.results.listing import list_experiments

    listed = list_experiments(storage)
    if as_json:
        print_json([entry.as_dict() for entry in listed])
    else:
        click.echo(experiments_table(listed))
    return 0
