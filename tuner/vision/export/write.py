"""The best model of an experiment, written as a folder that opens without running code.

model.safetensors   the weights: the state's "model", else every tensor of the state by its
                    dotted name; or checkpoint/ with the files of a checkpoint folder
config.json         how to rebuild the model, and its origin: `ExportConfig`
metrics.json        the trial's metrics at that epoch, the objective, and the metrics of the test
                    split and with fresh seeds, or null
README.md           the model card, of the two above
model.onnx, .pt2    the model without tuner, in the requested formats
pixels.onnx, .pt2   the same with the normalisation before it, and probabilities after it
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.errors import (
    CheckpointError,
    SpecError,
    TunerError,
    UsageError,
    translate_error,
)
from tuner.experiment.files import compute_sha256
from tuner.experiment.results.confirmation import choose_model
from tuner.experiment.results.measured_tests import read_test
from tuner.experiment.results.results import Results
from tuner.experiment.results.split_details import CONFUSION
from tuner.experiment.trials import TrialRecord
from tuner.spec.settings import parse
from tuner.spec.space.spaces import merge_config
from tuner.trial.checkpoints import load_state
from tuner.trial.context import add_trial_seed
from tuner.vision.batches import sample_evenly
from tuner.vision.blueprint import build_blueprint
from tuner.vision.catalog import DATASETS, is_shipped, shorten_name
from tuner.vision.datasets._dataset import DatasetInfo, read_info
from tuner.vision.evaluation import Predictor, prepare_device
from tuner.vision.export import interchange, read
from tuner.vision.export.calibration import (
    MOST_CALIBRATED,
    fit_calibration,
    load_local_images,
)
from tuner.vision.export.model_card import render_card
from tuner.vision.loss import CrossEntropy
from tuner.vision.settings import ClassifierSettings, validate_settings
from tuner.vision.shared_folders import create_partial_folder
from tuner.vision.transfer import add_backbone
from tuner.vision.weights import CONFIG, EXPORTED

# Of the test split, in metrics.json beside metrics
_BESIDE = ("images", "baseline", CONFUSION)


def export_model(
    results: Results,
    to: Path | str,
    *,
    trial_id: str | None = None,
    formats: Collection[str] = (),
) -> Path:
    """Write a trial's best checkpoint to the new folder `to`, and return that.

    trial_id: default the refit that the spec asks for, else the choice of `tuner best`: the best
    retrained model if the leaders were confirmed, else the best trial of the search. formats: of
    `interchange.FILES`, written beside the weights; for these, and for the layers below a head that
    trained alone, a custom network is imported, as for training. The folder appears only when it is
    complete: a kill can leave a hidden `.partial-*` beside it. Raises UsageError if `to` exists and
    is not an empty folder, or a format cannot be written, and as `Results.best_checkpoint`.
    """
    to = check_target(to)
    pick = choose_model(results, trial_id)
    spec = pick.results.spec
    if formats and not spec.ships:
        raise UsageError(
            f"{', '.join(formats)} is written of the image classifier that ships; "
            f"{spec.trainable} must write it itself"
        )
    interchange.check_formats(formats)
    model = TrialModel(*pick.trial)
    confirmed = pick.origin.get("confirmed")
    return write_export(to, model, search=results, formats=formats, confirmed=confirmed)


def check_target(to: Path | str) -> Path:
    """The folder of a new export. Raises UsageError if it exists and is not empty."""
    to = Path(to).expanduser()
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"cannot export to {to}: it exists and is not an empty folder")
    return to


class TrialModel:
    """A trial's best checkpoint, read. Raises what `Results.best_checkpoint` raises.

    state: None for the folder of a plain function's checkpoint. settings: None, and entries of
    config.json: none, if the trainable is not the classifier that ships.
    """

    def __init__(self, results: Results, trial: TrialRecord) -> None:
        self.results = results
        self.trial = trial
        self.checkpoint = results.best_checkpoint(trial)  # it compares the digest
        self.constants = add_trial_seed(results.spec.constants, trial.seed)
        path = self.checkpoint.path
        self.state = None if path.is_dir() else load_state(path, None)
        self.settings: ClassifierSettings | None = None
        self.entries: dict[str, Any] = {}
        if self.state is not None and results.spec.ships:
            values = merge_config(self.constants, trial.config)
            self.settings = validate_settings(values, f"trial {trial.trial_id}")
            # Imports nothing and reads no image: the folder may be someone else's
            info = read_info(self.state) or DATASETS.get(self.settings.dataset)
            if info is None:
                raise CheckpointError(
                    f"{path} does not say which images it was trained on"
                )
            self.entries = _describe_classifier(self.settings, info, self.constants)
            self.state = add_backbone(self.state, self.settings, self.entries["model"])

    @property
    def metrics(self) -> dict[str, float]:
        """The report of the checkpoint's epoch; empty without one."""
        report = self.trial.find_report(self.checkpoint.epoch)
        return report.metrics if report else {}

    @property
    def origin(self) -> dict[str, Any]:
        """The entries of config.json, also of one of several models, about the trial."""
        return {
            "config": self.trial.config,
            "seed": self.trial.find_seed(self.constants["seed"]),
            "trial_id": self.trial.trial_id,
            "epoch": self.checkpoint.epoch,
            "checkpoint_sha256": self.checkpoint.sha256,
        }


def _calibrate_model(model: TrialModel, export: read.Export) -> read.Calibration | None:
    """The calibration of the exported network, or None if its validation images are not here.

    A refit has trained on these: it gets the calibration of the trial that it takes after. Neither
    downloads nor decodes images.
    """
    refits = model.results.spec.refits
    if refits is None:
        network = export.load_network()
    else:
        try:
            source = Results(model.results.folder.with_name(refits.name))
            model = TrialModel(source, source.trial(refits.trial_id))
        except TunerError:  # gone, or damaged
            return None
        assert model.state is not None
        network = model.entries["model"].build(model.state["model"])
    assert model.settings is not None
    plan, pixels, data = (model.entries[name] for name in ("model", "input", "data"))
    images = load_local_images(model.settings, model.checkpoint.epoch - 1)
    if images is None or images.info.content != data.content:
        return None
    device = prepare_device(model.results.spec.resources.cpus)
    predictor = Predictor(network, plan, model.settings, device, pixels.stats)
    rows_N = sample_evenly(images.splits["validation"], MOST_CALIBRATED)
    return fit_calibration(*predictor.predict_images(images, rows_N))


def write_export(
    to: Path,
    model: TrialModel,
    *,
    search: Results,
    formats: Collection[str],
    confirmed: Mapping[str, Any] | None = None,
    combined: read.Combined | None = None,
    measured: Mapping[str, float] | None = None,
) -> Path:
    """Write `model`, of a trial of `search` or of its confirmation, to the new folder `to`.

    combined: of a model of several trials, whose weights `model.state` has; measured: its metrics
    on the validation split.
    """
    target = to.resolve()
    with translate_error(UsageError, f"cannot export to {to}", of=OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        with create_partial_folder(target.parent) as hidden:
            # With the mode of a new folder here, unlike `hidden`
            partial = hidden / target.name
            partial.mkdir()
            digest = _write_checkpoint(model.checkpoint.path, model.state, partial)
            config = _build_config(model, digest, search, combined)
            if model.settings and config.code is None:
                calibration = _calibrate_model(model, read.Export(partial, config))
                config = config.model_copy(update={"calibration": calibration})
            metrics = _collect_metrics(model, confirmed)
            if measured is not None:
                metrics |= {"metrics": dict(measured), "test": None}
            _write_json(partial / CONFIG, config.model_dump(mode="json"))
            _write_json(partial / read.METRICS, metrics)
            card = render_card(config, metrics, name=target.name)
            (partial / read.CARD).write_text(card, encoding="utf-8")
            if formats:
                _write_formats(read.Export(partial, config), formats)
            for path in partial.iterdir():
                # Safetensors lets only the owner read its file
                if path.is_file():
                    shutil.copymode(partial / CONFIG, path)
            partial.rename(target)
    return to


def _write_formats(export: read.Export, formats: Collection[str]) -> None:
    """Write the model of `export` beside its weights, in each of the formats."""
    plan, pixels = export.require_input()
    network = export.load_network(trust_code=True)
    loss = replace(
        CrossEntropy.build(export.parse_settings()), temperature=export.temperature
    )
    from_pixels = interchange.FromPixels(network, pixels.stats, loss).eval()
    shape = plan.in_channels, plan.image_size, plan.image_size
    measured = export.load_model(trust_code=True)
    for name in formats:
        model = from_pixels if name.endswith(interchange.PIXELS) else measured
        interchange.write(model, name, export.folder, shape=shape)


def _build_config(
    model: TrialModel,
    weights_sha256: str | None,
    search: Results,
    combined: read.Combined | None,
) -> read.ExportConfig:
    results = model.results
    searched = search.spec.model_dump(mode="json")
    values: dict[str, Any] = {
        "trainable": results.spec.trainable,
        "training": model.constants,
        **model.origin,
        "model": None,
        "input": None,
        "data": None,
        **model.entries,
        "combined": combined,
        "weights_sha256": weights_sha256,
        "experiment": results.name,
        "search": {
            "experiment": search.name,
            "strategy": searched["search"]["strategy"],
            "space": searched["search"]["space"],
            "scheduler": searched["scheduler"],
            "seed": searched["seed"],
            "counts": search.counts,
        },
        "refit": results.spec.refits,
        "versions": results.document.get("versions", {}),
        "git_revision": results.document.get("git_revision"),
    }
    config, faults = parse(read.ExportConfig, values)
    if config is None:  # experiment.json beside the spec is not checked before
        raise SpecError(faults, f"the export of {results.folder}")
    return config


def _describe_classifier(
    settings: ClassifierSettings, info: DatasetInfo, constants: Mapping[str, Any]
) -> dict[str, Any]:
    """The entries of the classifier that ships: its model and its data."""
    # Paths of this machine are private
    private = ("data_dir", "weights_sha256")
    training = {name: value for name, value in constants.items() if name not in private}
    name = settings.dataset
    if name.startswith("folder:"):
        name = f"folder:{shorten_name(name)}"
    if "dataset" in training:
        training["dataset"] = name
    if not is_shipped(settings.dataset):
        # Images of another folder are scaled as these were
        training |= {"image_size": info.image_size, "image_bits": info.bits}
    if training.get("start_from"):
        training["start_from"] = Path(training["start_from"]).name
    copied = [
        name for name in read.Data.model_fields if name not in ("name", "split_seed")
    ]
    return {
        "training": training,
        "model": build_blueprint(settings, info),
        "input": read.ImageInput(
            channels=info.channels,
            size=info.image_size,
            resize=read.Resize(mode="L" if info.channels == 1 else "RGB"),
            bits=info.bits,
            dtype=settings.dtype,
            mean=info.mean,
            std=info.std,
            mirrored=settings.test_time_flip,
            upside_down=settings.test_time_flip and settings.vertical_flip,
        ),
        "classes": info.classes,
        "data": read.Data(
            name=name,
            split_seed=settings.split_seed,
            **{name: getattr(info, name) for name in copied},
        ),
    }


def _collect_metrics(
    model: TrialModel, confirmed: Mapping[str, Any] | None
) -> dict[str, Any]:
    results = model.results
    trial = model.trial
    checkpoint = model.checkpoint
    measured = read_test(results.folder, trial.trial_id, checkpoint) or {}
    test = {n: v for n, v in measured.items() if n.startswith("test_") or n in _BESIDE}
    return {
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "metrics": model.metrics,
        "objective": {"metric": results.metric, "mode": results.mode},
        "test": test or None,
        "confirmed": confirmed and dict(confirmed),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _write_checkpoint(
    source: Path, state: Mapping[str, Any] | None, folder: Path
) -> str | None:
    """The sha256 of the weights in `state`; None without one, for a folder `source`: a copy."""
    if state is None:
        shutil.copytree(source, folder / read.FOLDER)
        return None
    from safetensors.torch import save_file

    from tuner.trial.state import list_weights

    weights = list_weights(state)
    if not weights:
        raise CheckpointError(f"{source} holds no tensors to export")
    if len(weights) > len(dict(weights)):
        raise CheckpointError(f"{source} holds two tensors of one dotted name")
    # Copies, since safetensors takes neither shared nor strided memory, and tied weights are both.
    copies = {name: tensor.detach().contiguous().clone() for name, tensor in weights}
    refused = (ValueError, KeyError, RuntimeError)  # sparse, quantised
    with translate_error(
        CheckpointError, f"cannot write {source} as safetensors", of=refused
    ):
        save_file(copies, folder / EXPORTED)
    return compute_sha256(folder / EXPORTED)
