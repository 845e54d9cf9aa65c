"""tuner report."""

from __future__ import annotations

from pathlib import Path

import click

import tuner
from tuner.cli import options
from tuner.cli.printing import json_text
from tuner.errors import UsageError


@click.command(
    cls=options.Command,
    section="Explain",
    place=1,
    examples=[
        "tuner report digits",
        "tuner report digits --format json --to digits.json",
        "tuner report digits --format optuna --to sqlite:///study.db",
    ],
)
@click.argument("name")
@click.option(
    "--format",
    "kind",
    type=click.Choice(("html", "json", "optuna")),
    default="html",
    show_default=True,
    help="html: one page; json: the same numbers; optuna: a study for optuna-dashboard.",
)
@click.option(
    "--to",
    metavar="FILE|URL",
    help="Where to write it; an existing file is replaced. For optuna a database: "
    "sqlite:///study.db.  [default: report.html in the experiment's folder; stdout for json]",
)
@options.storage
def report(name: str, kind: str, to: str | None, storage: str | None) -> int:
    """Explain experiment NAME in one HTML file that works offline.

    It shows the best trials, the effect of each hyperparameter, learning curves, what early
    stopping saved, idle time, memory, failures and provenance. You can write it at any time, also
    while the search runs.
    """
    results = tuner.load_results(name, storage)
    if kind == "optuna":
        from tuner.reporting.optuna_study import study_of, write_study

        if to is None:
            raise UsageError("--format optuna needs --to URL, as in --to sqlite:///study.db")
        study = study_of(results)
        write_study(study, to)
        click.echo(f"study {study.study_name!r} of {len(results.trials)} trials")
        return 0
    from tuner.experiment.files import check_folder
    from tuner.reporting.html import write_page
    from tuner.reporting.report import Report

    content = Report(results)
    if kind == "html":
        from tuner.reporting.html import report_page

        path = Path(to).expanduser() if to else results.folder / "report.html"
        if not to:
            check_folder(results.folder)
        write_page(path, report_page(content))
        click.echo(str(path))
    elif to is None:
        click.echo(json_text(content.as_dict()))
    else:
        write_page(Path(to).expanduser(), json_text(content.as_dict()) + "\n")
        click.echo(to)
    return 0
