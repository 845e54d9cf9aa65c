"""tuner ls."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Look", place=1)
@options.where("'val_loss < 0.2', 'started > \"2026-11\"'")
@click.option("--tag", metavar="TAG", help="Those with this tag.")
@click.option("--strategy", metavar="NAME", help="Those of this search strategy.")
@options.sort
@click.option("--columns", metavar="A,B", help="Shown instead: name,best,strategy,time,note.")
@options.storage
@options.as_json
def ls(
    where: str | None,
    tag: str | None,
    strategy: str | None,
    sort: str | None,
    reverse: bool,
    columns: str | None,
    storage: str | None,
    as_json: bool,
) -> int:
    """List the experiments in the storage folder, oldest first."""
    from tuner.reporting.tables import experiments_table
    from tuner.results import listing
    from tuner.results.rows import check_names

    listed = listing.list_experiments(storage)
    names = columns.split(",") if columns else None
    check_names(names or [], [one.row() for one in listed])
    found = listing.find(
        listed, where=where, tag=tag, strategy=strategy, sort=sort, reverse=reverse
    )
    if as_json:
        click.echo(json_text([one.as_dict() for one in found]))
    elif listed and not found:
        click.echo("no experiment matches")
    else:
        click.echo(experiments_table(found, names))
    return 0
