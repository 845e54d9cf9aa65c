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
    from tuner.results.listing import list_experiments
    from tuner.results.rows import by, check_names, chosen

    listed = list_experiments(storage)
    there = bool(listed)
    names = columns.split(",") if columns else None
    check_names(names or [], [one.row() for one in listed])
    listed = [listed[number] for number in chosen([one.row() for one in listed], where)]
    listed = [
        one
        for one in listed
        if (tag is None or tag in one.tags) and (strategy is None or one.strategy == strategy)
    ]
    if sort is not None:
        listed = [listed[n] for n in by([one.row() for one in listed], sort, reverse=reverse)]
    elif reverse:
        listed.reverse()
    if as_json:
        click.echo(json_text([one.as_dict() for one in listed]))
    elif there and not listed:
        click.echo("no experiment matches")
    else:
        click.echo(experiments_table(listed, names))
    return 0
