"""tuner compare."""

from __future__ import annotations

from pathlib import Path

import click

import tuner
from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Explain",
    place=2,
    examples=[
        "tuner compare first wide",
        "tuner compare random-0 random-1 bohb-0 bohb-1 --html compared.html",
    ],
)
@click.argument("names", nargs=-1, required=True, metavar="NAME NAME ...")
@click.option("--html", metavar="FILE", help="Also write a page with the curves.")
@options.storage
@options.as_json
def compare(names: tuple[str, ...], html: str | None, storage: str | None, as_json: bool) -> int:
    """Compare experiments side by side.

    It shows what each had found after the same number of trials and epochs, and after the same
    time. Experiments that differ in their seed alone are averaged.
    """
    from tuner.reporting.comparison_text import comparison_text

    comparison = tuner.compare(*names, storage=storage)
    if html is not None:
        from tuner.reporting.html import comparison_page, write_page

        write_page(Path(html).expanduser(), comparison_page(comparison))
        click.echo(html, err=True)
    click.echo(json_text(comparison.as_dict()) if as_json else comparison_text(comparison))
    return 0
