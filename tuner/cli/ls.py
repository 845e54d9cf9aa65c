"""tuner ls."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Look",
    place=1,
    examples=[
        "tuner ls --tag baseline",
        "tuner ls --where 'val_loss < 0.2 and strategy == \"random\"' --sort best",
        "tuner ls --columns name,best,time,note",
    ],
)
@options.where("'val_loss < 0.2', 'started > \"2026-11\"'")
@click.option("--tag", metavar="TAG", help="Show only those with this tag.")
@click.option("--strategy", metavar="NAME", help="Show only those of this search strategy.")
@options.sort
@click.option(
    "--columns", metavar="A,B", help="Show these columns, as in name,best,strategy,time,note."
)
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
    """List the experiments in the storage, oldest first."""
    from tuner.experiment.results import listing
    from tuner.experiment.results.rows import check_names
    from tuner.reporting.tables import experiments_table

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
