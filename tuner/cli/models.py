"""Commands for the models of an experiment: export, evaluate, refit and soup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment, admit_export, admit_network
from tuner.cli.outcome import print_outcome
from tuner.cli.printing import format_json
from tuner.errors import UsageError
from tuner.wording import clean_text, format_amount, format_number, format_rows

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results
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
@click.option(
    "--to", metavar="DIR", help="Write the model into this folder, new or empty."
)
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
        raise UsageError(
            "export needs --to DIR; only the table of --trials FILE goes without"
        )
    results = tuner.load_results(name, storage)
    if trials is not None:
        from tuner.experiment.results.tables import write_table

        click.echo(str(write_table(results.dataframe(), trials)))
    settings = {**results.spec.training, **results.spec.search.space}
    if formats or "train_layers" in settings:
        # A format, and all layers below a head that trained alone, take the network's code
        admit_network(results, trust=trust)
    if to is not None:
        click.echo(
            str(tuner.export_model(results, to, trial_id=trial_id, formats=formats))
        )


@options.command(
    "Hand over", 2, "tuner evaluate digits", "tuner evaluate best_model --data photos"
)
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
            pick.results,
            pick.trial_id,
            data_dir=data_dir,
            labels=labels_file is not None,
        )
        measured = {**measured, **pick.origin}
    elif trial_id is not None:
        raise UsageError(f"--trial is for an experiment; {name} is one exported model")
    else:
        admit_export(export, trust=trust)
        measured = evaluation.evaluate_export(export, data_dir=data_dir)
    if labels_file:
        _write_labels(measured, labels_file)
    click.echo(
        format_json(describe_test(measured)) if as_json else _format_metrics(measured)
    )


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
        rows["macro_recall"] = (
            f"{macro:.4f}  (the mean over the classes, which are uneven)"
        )
    lines = [clean_text(f"{key:18} {text}") for key, text in rows.items()]
    classes = [
        "Recall of each class",
        *(f"  {line}" for line in format_class_recalls(measured)),
    ]
    lines += classes if CONFUSION in measured else []
    if pairs := count_doubtful_pairs(measured):
        count = format_amount(sum(number for _, number in pairs), "label")
        lines += [
            "",
            f"{count} may be wrong (--labels FILE), by label / likelier class",
        ]
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


@options.command(
    "Hand over", 4, "tuner refit digits", "tuner refit digits --seeds 3 --gpus 1"
)
@options.count(
    "--seeds", "N", default=1, help="Train N models, the first with the trial's seed."
)
@options.final
@options.trial
@options.cpus
@options.gpus
@options.address
@options.evaluate
@options.trust
@options.experiment
@options.as_json
def refit(
    results: Results, evaluate: bool, trust: bool, as_json: bool, **settings: Any
) -> int:
    """Train NAME's best config on training and validation images.

    It trains for the number of epochs that validation chose, as the experiment NAME-refit. Nothing
    is validated any more; the test split is measured once, at the end. `tuner resume NAME-refit`
    goes on after a kill, and `tuner export NAME-refit --to DIR` hands the model over.

    With --final no image is left out. No measure of such a model is honest: what the test split has
    measured of NAME, or of its refit without --final, says what to expect at least.
    """
    admit_experiment(results, trust=trust, trains_only=True)
    return print_outcome(
        tuner.refit(results, **settings), evaluate=evaluate, as_json=as_json
    )


@options.command(
    "Hand over",
    5,
    "tuner soup digits --top 5",
    "tuner soup digits --top 5 --to final_model",
)
@options.count("--top", "K", default=5, help="Combine the K best trials.")
@click.option(
    "--to",
    metavar="DIR",
    help="Export the chosen model into this folder, new or empty.",
)
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
            format_number(each.metrics[name]) if name in each.metrics else ""
            for name in names
        ]
        beyond = "" if done.is_allowed(each) else ", beyond the limits"
        rows.append((each.kind, *values, " ".join(each.trials) + beyond))
    lines = [
        f"{done.name}, calibrated, on the validation split",
        "",
        *format_rows(rows),
        "",
    ]
    lines += [f"trial {trial_id} {why}" for trial_id, why in done.left_out.items()]
    lines.append(f"chosen: {done.chosen.kind}")
    lines += [f"exported to {done.folder}"] if done.folder else []
    return "\n".join(map(clean_text, lines))
