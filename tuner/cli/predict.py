"""The command that leads from an exported model back to photos."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from tuner.cli import options
from tuner.cli.consent import admit_export
from tuner.cli.printing import SOME_FAILED, json_text
from tuner.errors import DataError, UsageError
from tuner.wording import amount_of, no_formula, printable

if TYPE_CHECKING:
    from tuner.vision.export.predict import Prediction

Fault = tuple[str, str]  # a file, and why it cannot be read
_WIDTH, _LABEL_WIDTH = 60, 16  # of columns of the table, unless a name is longer


@click.command(
    cls=options.Command,
    section="Hand over",
    order=3,
    examples=[
        "tuner predict best_model photo.jpg",
        "tuner predict best_model new_photos --top 3 --csv labels.csv",
    ],
)
@click.argument("folder", metavar="EXPORT")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@options.count("--top", "K", default=1, help="Show the K likeliest classes.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write a CSV file; - for stdout.")
@options.trust
@options.as_json
def predict(
    folder: str,
    paths: tuple[str, ...],
    top: int,
    csv_file: str | None,
    trust: bool,
    as_json: bool,
) -> int:
    """Say what the exported model in folder EXPORT sees on images.

    PATH is an image, or a folder that is searched for images, its sub-folders too. The images are
    shown in this order, each with its likeliest classes and their probabilities. Those that cannot
    be read are listed at the end, with exit code 3, or 1 if there are no others.
    """
    from tuner.vision.datasets._archive import progress_bar
    from tuner.vision.export.predict import image_files, predictions
    from tuner.vision.export.read import read_export

    if csv_file and as_json:
        raise UsageError("give --csv or --json, not both")
    export = read_export(folder)
    admit_export(export, trust=trust)
    files, faults, out = image_files(paths), list[Fault](), sys.stdout
    top = min(top, len(export.config.classes))
    bar = progress_bar()
    bar.disable |= csv_file in (None, "-") and out.isatty()
    with redirect_stdout(sys.stderr), bar:  # what a network prints is no data
        every = predictions(export, files, top=top, trust_code=True)
        shown = bar.track(every, total=len(files), description="Predicting")
        readable = _readable(shown, faults)
        if as_json:
            _write_json(readable, faults, out)
        elif csv_file == "-":
            _write_csv(readable, top, out)
        elif csv_file:
            _write_csv_file(readable, top, Path(csv_file).expanduser())
            click.echo(csv_file, file=out)
        else:
            _write_table(readable, top, files, out)
    return _exit_code(faults, len(files))


def _readable(predictions: Iterable[Prediction], faults: list[Fault]) -> Iterator[Prediction]:
    """The predictions of files that can be read; `faults` gets the others."""
    for prediction in predictions:
        if prediction.fault is None:
            yield prediction
        else:
            faults.append((prediction.file, prediction.fault))


def _exit_code(faults: Sequence[Fault], count: int) -> int:
    """The exit code, after a list of the files that cannot be read."""
    if not faults:
        return 0
    lines = [f"{len(faults):,} of {amount_of(count, 'file')} cannot be read:"]
    lines += [f"  {printable(f'{file}: {fault}')}" for file, fault in faults]
    click.echo("\n".join(lines), err=True)
    return SOME_FAILED if len(faults) < count else DataError.exit_code


def _columns(top: int) -> list[str]:
    numbers = ["", *range(2, top + 1)]
    return ["file", *(f"{name}{number}" for number in numbers for name in ("label", "probability"))]


def _write_table(
    predictions: Iterable[Prediction], top: int, files: Sequence[str], out: IO[str]
) -> None:
    """Rows as they come: the width of the names is known, but for labels that are long."""
    width = min(max(map(len, files)), _WIDTH)

    def write(cells: Sequence[str]) -> None:
        widths = [width, *[_LABEL_WIDTH, 11] * top]
        click.echo("  ".join(map(str.ljust, cells, widths)).rstrip(), out)

    write(_columns(top))
    for prediction in predictions:
        pairs = ((printable(label), f"{p:.4f}") for label, p in prediction.top)
        write([printable(prediction.file), *chain(*pairs)])


def _write_csv_file(predictions: Iterable[Prediction], top: int, path: Path) -> None:
    from tuner.experiment.files import write_file

    def write(partial: Path) -> None:
        with partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            _write_csv(predictions, top, file)

    write_file(path, write)


def _write_csv(predictions: Iterable[Prediction], top: int, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_columns(top))
    for prediction in predictions:
        pairs = ((no_formula(label), f"{p:.9g}") for label, p in prediction.top)
        writer.writerow([no_formula(prediction.file), *chain(*pairs)])


def _write_json(predictions: Iterable[Prediction], faults: Sequence[Fault], out: IO[str]) -> None:
    """One document, each image as it comes. `faults` is complete after the last one."""
    click.echo('{"predictions": [', out, nl=False)
    for number, each in enumerate(predictions):
        top = [{"label": label, "probability": p} for label, p in each.top]
        entry = json_text({"file": each.file, **top[0], "top": top}, indent=None)
        click.echo(f"{',' if number else ''}\n{entry}", out, nl=False)
    unreadable = [{"file": file, "reason": reason} for file, reason in faults]
    click.echo(f'\n], "unreadable": {json_text(unreadable)}}}', out)
