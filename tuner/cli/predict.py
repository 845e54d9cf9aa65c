"""tuner predict."""

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
from tuner.cli.outcome import SOME_FAILED
from tuner.cli.printing import format_json
from tuner.errors import DataError, UsageError
from tuner.wording import clean_text, escape_formula, format_amount, format_rows

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
@click.option(
    "--csv", "csv_file", metavar="FILE", help="Write a CSV file; - for stdout."
)
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
    from tuner.experiment.files import write_file
    from tuner.vision.export.predict import Prediction, find_image_files, predict_files
    from tuner.vision.export.read import read_export
    from tuner.vision.progress import build_progress_bar

    if csv_file and as_json:
        raise UsageError("give --csv or --json, not both")
    export = read_export(folder)
    admit_export(export, trust=trust)
    files = find_image_files(paths)
    done = list[Prediction]()
    top = min(top, len(export.config.classes))

    def predict_readable() -> list[Prediction]:
        """The predictions of the files that can be read; `done` then has all."""
        with (
            redirect_stdout(sys.stderr),
            build_progress_bar() as bar,
        ):  # what a network prints is no data
            every = predict_files(export, files, top=top, trust_code=True)
            done.extend(bar.track(every, total=len(files), description="Predicting"))
        return [each for each in done if each.fault is None]

    def write(partial: Path) -> None:
        with partial.open(
            "w", newline="", encoding="utf-8", errors="surrogateescape"
        ) as file:
            _write_csv(predict_readable(), top, file)

    if as_json:
        shown = [_describe_prediction(each) for each in predict_readable()]
        unreadable = [
            {"file": each.file, "reason": each.fault} for each in done if each.fault
        ]
        click.echo(format_json({"predictions": shown, "unreadable": unreadable}))
    elif csv_file == "-":
        _write_csv(predict_readable(), top, sys.stdout)
    elif csv_file:
        write_file(Path(csv_file).expanduser(), write)
        click.echo(csv_file)
    else:
        rows = [
            _list_columns(top),
            *(_format_cells(each, ".4f") for each in predict_readable()),
        ]
        click.echo("\n".join(format_rows([[*map(clean_text, row)] for row in rows])))
    return _report_unreadable(done)


def _report_unreadable(done: Sequence[Prediction]) -> int:
    """The exit code, after a list of the files that cannot be read."""
    faults = [
        f"  {clean_text(f'{each.file}: {each.fault}')}" for each in done if each.fault
    ]
    if not faults:
        return 0
    head = f"{len(faults):,} of {format_amount(len(done), 'file')} cannot be read:"
    click.echo("\n".join([head, *faults]), err=True)
    return SOME_FAILED if len(faults) < len(done) else DataError.exit_code


def _list_columns(top: int) -> list[str]:
    numbers = ["", *range(2, top + 1)]
    return [
        "file",
        *(f"{name}{number}" for number in numbers for name in ("label", "probability")),
    ]


def _format_cells(prediction: Prediction, precision: str) -> list[str]:
    return [
        prediction.file,
        *chain(*((label, f"{p:{precision}}") for label, p in prediction.top)),
    ]


def _describe_prediction(prediction: Prediction) -> dict[str, Any]:
    top = [{"label": label, "probability": p} for label, p in prediction.top]
    return {"file": prediction.file, **top[0], "top": top}


def _write_csv(predictions: Iterable[Prediction], top: int, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_list_columns(top))
    for prediction in predictions:
        writer.writerow(map(escape_formula, _format_cells(prediction, ".9g")))
