"""Commands that hand over the best model: export, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.outcome import announce_code, announce_import, load, print_json
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.export.read import Export

_FORMATS = ("onnx", "torch-export")


@click.command()
@click.argument("name")
@click.option("--to", metavar="DIR", help="A new or empty folder.")
@click.option("--trials", metavar="FILE", help="The table of all trials: a .parquet or .csv file.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(_FORMATS),
    multiple=True,
    help="Beside the weights; may be given again.",
)
@options.trial
@options.storage
def export(
    name: str,
    to: str | None,
    trials: str | None,
    formats: tuple[str, ...],
    trial_id: str | None,
    storage: str | None,
) -> int:
    """Export the best model of experiment NAME.

    The folder holds weights, config, metrics and a model card: tuner.load_model(DIR) rebuilds the
    model in Python, `tuner evaluate DIR` measures it. Once confirmed, it is the retrained model
    that `tuner best` shows. --trials writes the table of all trials, with --to or without.
    """
    if to is None and (trials is None or formats or trial_id):
        raise UsageError("export needs --to DIR; only the table of --trials FILE goes without")
    results = load(name, storage)
    if trials is not None:
        from tuner.results.trials_table import write_trials

        click.echo(str(write_trials(results, trials)))
    if to is None:
        return 0
    from tuner.export.write import export as write
    from tuner.results.best import handed_over

    pick = handed_over(results, trial_id)
    written = write(
        pick.results,
        to,
        trial_id=pick.trial_id,
        formats=formats,
        search=results,
        confirmed=pick.told.get("confirmed"),
    )
    click.echo(str(written))
    return 0


@click.command()
@click.argument("name", metavar="NAME|DIR")
@click.option("--data", "data_dir", metavar="DIR", help="Where the data set lies here.")
@options.trial
@options.storage
@options.as_json
def evaluate(
    name: str, data_dir: str | None, trial_id: str | None, storage: str | None, as_json: bool
) -> int:
    """Measure NAME's best, or an export, on the test split.

    An experiment's best is measured once, and kept: the retrained model that `tuner best` shows,
    once confirmed. An exported model, in the folder DIR, is measured anew.
    """
    export = _exported(name, storage)
    if export is None:
        measured = _evaluate_best(name, storage, trial_id, data_dir)
    elif trial_id is not None:
        raise UsageError(f"--trial is for an experiment; {name} is one exported model")
    else:
        measured = _evaluate_export(export, data_dir)
    if as_json:
        print_json(measured)
    else:
        where = measured.pop("confirmed", {})
        for key, value in {**measured, **where}.items():
            click.echo(f"{key:18} {value:.4f}" if isinstance(value, float) else f"{key:18} {value}")
    return 0


def _exported(name: str, storage: str | None) -> Export | None:
    """The export in the folder `name`; None where there is none, or an experiment has the name."""
    from tuner.export.read import is_export, read_export
    from tuner.record.folder import find_experiment

    if not is_export(name):
        return None
    try:
        find_experiment(name, storage)
    except UsageError:
        return read_export(name)
    return None


def _evaluate_best(
    name: str, storage: str | None, trial_id: str | None, data_dir: str | None
) -> dict[str, Any]:
    from tuner.export.evaluate import evaluate as measure
    from tuner.results.best import handed_over

    pick = handed_over(load(name, storage), trial_id)
    announce_code(pick.results)
    return {**measure(pick.results, pick.trial_id, data_dir=data_dir), **pick.told}


def _evaluate_export(export: Export, data_dir: str | None) -> dict[str, Any]:
    from tuner.export.evaluate import evaluate_export
    from tuner.spec.experiment import IMAGE_CLASSIFIER

    trainable = export.config.trainable
    if trainable != IMAGE_CLASSIFIER and Path.cwd().is_relative_to(export.folder.resolve()):
        raise UsageError(
            f"{trainable} is imported from the working directory, and that is the "
            "exported folder: go to your own one, for no code of an export is run"
        )
    announce_import(trainable, str(export.folder))
    return evaluate_export(export, data_dir=data_dir)
