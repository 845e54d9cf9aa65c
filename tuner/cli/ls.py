"""tuner ls."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Look", place=1)
@options.storage
@options.as_json
def ls(storage: str | None, as_json: bool) -> int:
    """List the experiments in the storage folder."""
    from tuner.reporting.tables import experiments_table
    from tuner.results.listing import list_experiments

    listed = list_experiments(storage)
    shown = [entry.as_dict() for entry in listed]
    click.echo(json_text(shown) if as_json else experiments_table(listed))
    return 0
