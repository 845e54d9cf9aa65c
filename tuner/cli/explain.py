"""Commands that explain a search: advise, report, compare, confirm and refine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.outcome import print_confirmation
from tuner.cli.printing import format_json
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results

_POINTS = 3  # values of each continuous hyperparameter in the grid of `refine`


@options.command(
    "Explain",
    0,
    "tuner advise digits",
    "tuner advise digits --ask lr,batch_size --json",
)
@click.option(
    "--ask",
    metavar="KEY,...",
    help="Compare the values of these hyperparameters, each at the best of all others.",
)
@options.experiment
@options.as_json
def advise(results: Results, ask: str | None, as_json: bool) -> None:
    """Say what to change after the search NAME, most urgent first.

    Each finding has what was seen, with its interval; what it means; and the command to run next.
    It reads the journal alone.
    """
    from tuner.reporting.advice import advise, describe_findings

    findings = advise(results, ask=ask.split(",") if ask else ())
    click.echo(format_json(describe_findings(findings)) if as_json else repr(findings))


@options.command(
    "Explain",
    1,
    "tuner report digits",
    "tuner report digits --format json --to digits.json",
    "tuner report digits --format optuna --to sqlite:///study.db",
)
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
@click.option(
    "--images/--no-images",
    default=True,
    show_default=True,
    help="Whether the page shows thumbnails of your images that the best trial gets wrong.",
)
@options.experiment
def report(results: Results, kind: str, to: str | None, images: bool) -> None:
    """Explain experiment NAME in one HTML file that works offline.

    It shows the best trials, the effect of each hyperparameter, learning curves, what early
    stopping saved, idle time, memory, failures and provenance. You can write it at any time, also
    while the search runs.
    """
    if kind == "optuna":
        from tuner.reporting.optuna_study import build_study, write_study

        if to is None:
            raise UsageError(
                "--format optuna needs --to URL, as in --to sqlite:///study.db"
            )
        study = build_study(results)
        write_study(study, to)
        click.echo(f"study {study.study_name!r} of {len(results.trials)} trials")
        return
    from tuner.reporting.html import render_report_page, write_page
    from tuner.reporting.report import Report

    content = Report(results)
    if kind == "html":
        path = Path(to).expanduser() if to else results.folder / "report.html"
        write_page(path, render_report_page(content, images=images))
        click.echo(str(path))
    elif to is None:
        click.echo(format_json(content.as_dict()))
    else:
        write_page(Path(to).expanduser(), format_json(content.as_dict()) + "\n")
        click.echo(to)


@options.command(
    "Explain",
    2,
    "tuner compare first wide",
    "tuner compare random-0 random-1 bohb-0 bohb-1 --html compared.html",
)
@click.argument("names", nargs=-1, required=True, metavar="NAME NAME ...")
@click.option("--html", metavar="FILE", help="Also write a page with the curves.")
@options.storage_and_json
def compare(
    names: tuple[str, ...], html: str | None, storage: str | None, as_json: bool
) -> None:
    """Compare experiments side by side.

    It shows what each had found after the same number of trials and epochs, and after the same
    time. Experiments that differ in their seed alone are averaged.
    """
    from tuner.reporting.comparison_text import format_comparison

    comparison = tuner.compare(*names, storage=storage)
    if html is not None:
        from tuner.reporting.html import render_comparison_page, write_page

        write_page(Path(html).expanduser(), render_comparison_page(comparison))
        click.echo(html, err=True)
    click.echo(
        format_json(comparison.as_dict()) if as_json else format_comparison(comparison)
    )


@options.command("Explain", 3, "tuner confirm digits --top 2 --seeds 3")
@options.count("--top", "K", default=3, help="Retrain the K best trials.")
@options.count(
    "--seeds", "N", default=5, help="Retrain each of them with N fresh seeds."
)
@options.address
@options.evaluate
@options.trust
@options.experiment
@options.as_json
def confirm(
    results: Results, evaluate: bool, trust: bool, as_json: bool, **settings: Any
) -> int:
    """Retrain the best trials of NAME with fresh seeds.

    The trial with the best mean on the validation split wins; the test split is measured once, for
    that one. From then on best, export and evaluate use it.
    """
    admit_experiment(results, trust=trust, trains_only=True)
    confirmation = tuner.confirm(results, **settings)
    return print_confirmation(confirmation, evaluate=evaluate, as_json=as_json)


@options.command("Explain", 4)
@click.option(
    "--to", metavar="FILE", help="The new .yaml file.  [default: NAME-refined.yaml]"
)
@options.experiment
@options.as_json
def refine(results: Results, to: str | None, as_json: bool) -> None:
    """Write a grid search around the best trials of NAME.

    It is a YAML file for `tuner run`, which you can read and change first: search.points is how
    many values of each continuous hyperparameter it tries.
    """
    from tuner.experiment.results import refinement
    from tuner.reporting.refinement_text import describe_refinement, format_refinement

    refined = refinement.refine(results, points=_POINTS)
    path = refinement.write_refined(refined, Path(to) if to else None)
    if as_json:
        click.echo(format_json(describe_refinement(refined, path)))
    else:
        click.echo(
            format_refinement(
                refined, path, results.document["spec"]["search"]["space"]
            )
        )
