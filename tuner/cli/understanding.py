"""Commands that explain what searches have found: report, compare."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tuner.cli import options
from tuner.cli.outcome import load, print_json
from tuner.errors import UsageError

_FORMATS = ("html", "json", "optuna")


@click.command()
@click.argument("name")
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    default="html",
    show_default=True,
    help="A page; its numbers on stdout; or an Optuna study, for optuna-dashboard.",
)
@click.option(
    "--to",
    metavar="FILE|URL",
    help="Replaced if it exists.  [default: report.html in the experiment's folder]  "
    "For optuna a new database: sqlite:///study.db",
)
@options.storage
def report(name: str, kind: str, to: str | None, storage: str | None) -> int:
    """Explain experiment NAME in one HTML file that works offline.

    Best trials, what each hyperparameter does, learning curves, what early stopping saved, idle
    time, memory, failures, provenance. It can be made at any time, also while the search runs.
    """
    results = load(name, storage)
    if kind == "optuna":
        from tuner.reporting.optuna_study import study_of, write_study

        if to is None:
            raise UsageError("--format optuna needs --to URL, as in --to sqlite:///study.db")
        study = study_of(results)
        write_study(study, to)
        click.echo(f"study {study.study_name!r} of {len(results.trials)} trials")
        return 0
    from tuner.record.plain_files import check_folder
    from tuner.reporting.html import write_page
    from tuner.reporting.report import Report

    told = Report(results)
    if kind == "html":
        from tuner.reporting.html import report_page

        path = Path(to).expanduser() if to else results.folder / "report.html"
        if not to:
            check_folder(results.folder)
        write_page(path, report_page(told))
        click.echo(str(path))
    elif to is None:
        print_json(told.as_dict())
    else:
        write_page(Path(to).expanduser(), json.dumps(told.as_dict(), indent=2) + "\n")
        click.echo(to)
    return 0


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME NAME ...")
@click.option("--html", metavar="FILE", help="Write a page with the curves, too.")
@options.storage
@options.as_json
def compare(names: tuple[str, ...], html: str | None, storage: str | None, as_json: bool) -> int:
    """Compare experiments by strategy, side by side.

    Told is what each reached for the same spending, in trials, epochs and time. Experiments of one
    strategy are its seeds.
    """
    from tuner.reporting.comparison_text import comparison_text
    from tuner.results.comparison import Comparison

    comparison = Comparison([load(name, storage) for name in names])
    if html is not None:
        from tuner.reporting.html import comparison_page, write_page

        write_page(Path(html).expanduser(), comparison_page(comparison))
        click.echo(html, err=True)
    if as_json:
        print_json(comparison.as_dict())
    else:
        click.echo(comparison_text(comparison))
    return 0
