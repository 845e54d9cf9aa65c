"""The command that leads from an exported model back to photos."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.consent import admit_export
from tuner.cli.printing import SOME_FAILED, json_text
from tuner.errors import DataError, UsageError
from tuner.wording import aligned, amount_of, no_formula, printable

if TYPE_CHECKING:
    from tuner.vision.export.predict import Prediction


@options.command(
    "Hand over",
    3,
    "tuner predict best_model photo.jpg",
    "tuner predict best_model new_photos --top 3 --csv labels.csv",
)
@click.argument("folder", metavar="EXPORT")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@options.count("--top", "K", default=1, help="Show the K likeliest classes.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write a CSV file; - for stdout.")
@options.trust
@options.as_json
def predict(
    folder: str, paths: tuple[str, ...], top: int, csv_file: str | None, trust: bool, as_json: bool
) -> int:
    """Say what the exported model in folder EXPORT sees on images.

    PATH is an image, or a folder that is searched for images, its sub-folders too. The images are
    shown in this order, each with its likeliest classes and their probabilities. Those that cannot
    be read are listed at the end, with exit code 3, or 1 if there are no others.
    """
    from tuner.experiment.files import write_file
    from tuner.vision.datasets._archive import progress_bar
    from tuner.vision.export.predict import Prediction, image_files, predictions
    from tuner.vision.export.read import read_export

    if csv_file and as_json:
        raise UsageError("give --csv or --json, not both")
    export = read_export(folder)
    admit_export(export, trust=trust)
    files, done = image_files(paths), list[Prediction]()
    top = min(top, len(export.config.classes))

    def readable() -> list[Prediction]:
        """The predictions of the files that can be read; `done` then has all."""
        with redirect_stdout(sys.stderr), progress_bar() as bar:  # what a network prints is no data
            every = predictions(export, files, top=top, trust_code=True)
            done.extend(bar.track(every, total=len(files), description="Predicting"))
        return [each for each in done if each.fault is None]

    def write(partial: Path) -> None:
        with partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            _write_csv(readable(), top, file)

    if as_json:
        shown = [_plain(each) for each in readable()]
        unreadable = [{"file": each.file, "reason": each.fault} for each in done if each.fault]
        click.echo(json_text({"predictions": shown, "unreadable": unreadable}))
    elif csv_file == "-":
        _write_csv(readable(), top, sys.stdout)
    elif csv_file:
        write_file(Path(csv_file).expanduser(), write)
        click.echo(csv_file)
    else:
        rows = (
            [each.file, *chain(*((label, f"{p:.4f}") for label, p in each.top))]
            for each in readable()
        )
        click.echo("\n".join(aligned([[*map(printable, row)] for row in (_columns(top), *rows)])))
    return _exit_code(done)


def _exit_code(done: Sequence[Prediction]) -> int:
    """The exit code, after a list of the files that cannot be read."""
    faults = [f"  {printable(f'{each.file}: {each.fault}')}" for each in done if each.fault]
    if not faults:
        return 0
    head = f"{len(faults):,} of {amount_of(len(done), 'file')} cannot be read:"
    click.echo("\n".join([head, *faults]), err=True)
    return SOME_FAILED if len(faults) < len(done) else DataError.exit_code


def _columns(top: int) -> list[str]:
    numbers = ["", *range(2, top + 1)]
    return ["file", *(f"{name}{number}" for number in numbers for name in ("label", "probability"))]


def _plain(prediction: Prediction) -> dict[str, Any]:
    top = [{"label": label, "probability": p} for label, p in prediction.top]
    return {"file": prediction.file, **top[0], "top": top}


def _write_csv(predictions: Iterable[Prediction], top: int, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_columns(top))
    for prediction in predictions:
        pairs = ((no_formula(label), f"{p:.9g}") for label, p in prediction.top)
        writer.writerow([no_formula(prediction.file), *chain(*pairs)])
