"""tuner compare."""

from __future__ import annotations

from pathlib import Path

import click

import tuner
from tuner.cli import options
from tuner.cli.printing import print_json


@click.command(cls=options.Command, section="Explain", place=2)
@click.argument("names", nargs=-1, required=True, metavar="NAME NAME ...")
@click.option("--html", metavar="FILE", help="Write a page with the curves, too.")
@options.storage
@options.as_json
def compare(names: tuple[str, ...], html: str | None, storage: str | None, as_json: bool) -> int:
    """Compare experiments by strategy, side by side.

    It shows what each reached for the same spending, in trials, epochs and time. Experiments of
    one strategy are its seeds.
    """
    from tuner.reporting.comparison_text import comparison_text

    comparison = tuner.compare(*names, storage=storage)
    if html is not None:
        from tuner.reporting.html import comparison_page, write_page

        write_page(Path(html).expanduser(), comparison_page(comparison))
        click.echo(html, err=True)
    if as_json:
        print_json(comparison.as_dict())
    else:
        click.echo(comparison_text(comparison))
    return 0
