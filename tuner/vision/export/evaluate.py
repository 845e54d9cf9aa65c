"""The held-out test split: measured once for a trial's best checkpoint, each time for an export."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from inspect import isclass
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, DataError, UsageError, translate_error
from tuner.experiment.results.measured_tests import read_test, record_test
from tuner.experiment.results.results import Results
from tuner.experiment.results.split_details import DETAILS, LEARNING_CURVE
from tuner.spec.experiment import parse_trainable
from tuner.spec.loading import has_test, import_trainable, is_learner
from tuner.spec.sections import Refits
from tuner.trial.checkpoints import load_state
from tuner.trial.context import add_trial_seed
from tuner.trial.gpus import take
from tuner.trial.learner import Learner
from tuner.vision.blueprint import Blueprint
from tuner.vision.catalog import (
    decode_folder,
    list_image_names,
    replace_data_dir,
    resolve_paths,
)
from tuner.vision.datasets._dataset import check_same, resolve_data_folder
from tuner.vision.export.read import Export, ImageInput
from tuner.vision.settings import build_trial_settings
from tuner.vision.sources._decoded import Decoding
from tuner.vision.sources.folder import is_labelled
from tuner.vision.weights import EXPORTED
from tuner.wording import find_program, summarize_names

_log = logging.getLogger(__name__)


def evaluate(
    results: Results,
    trial_id: str | None = None,
    *,
    data_dir: str | None = None,
    trainable: Any = None,
    labels: bool = False,
) -> dict[str, Any]:
    """The test metrics of a trial's best checkpoint (None: of the best trial's).

    Returns {trial_id, epoch, checkpoint_sha256, test_accuracy, test_loss, ...}, which is recorded
    in the trial's folder, where a second call reads it. Imports the trainable that the experiment
    names. trainable: the trainable of an experiment that has it by value. data_dir: default that of
    the search. labels: whether to examine the images, too, if the Learner can: its `examine_images`
    gives `doubtful_labels` and a `learning_curve`.
    Raises UsageError if the trainable cannot be imported or built, or has no method `test`,
    CheckpointError if it does not take the checkpoint, and what `Results.best_checkpoint` raises.
    """
    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    _refuse_final(results.spec.refits)
    checkpoint = results.best_checkpoint(trial)
    known = read_test(results.folder, trial.trial_id, checkpoint)
    if known is not None and (LEARNING_CURVE in known or not labels):
        return known
    spec = results.spec
    constants = add_trial_seed(spec.constants, trial.seed)
    take(spec.resources.gpus)
    path = spec.trainable if trainable is None else parse_trainable(trainable)
    learner = _build_learner(
        path, trial.config, constants, data_dir, cpus=spec.resources.cpus
    )
    if known is None:
        # `best_checkpoint` has compared its digest
        state = load_state(checkpoint.path, None)
        with translate_error(
            CheckpointError, f"{checkpoint.path} does not fit {spec.trainable}"
        ):
            learner.load_state_dict(state)
        origin = trial.trial_id, checkpoint.epoch, checkpoint.sha256
        known = _record(learner.test(), _collect_details(learner), *origin)
    if labels and (examine := getattr(learner, "examine_images", None)):
        known |= examine()
    record_test(results.folder, trial.trial_id, known)
    return known


def _refuse_final(refits: Refits | None) -> None:
    if refits and refits.final:
        raise UsageError(
            "the model has trained on the test images, too (--final): "
            f"`{find_program()} evaluate {refits.name} --trial {refits.trial_id}` says what to "
            "expect of it; measure it on other images (an export with --data)"
        )


def evaluate_export(
    export: Export, *, data_dir: str | None = None, trainable: Any = None
) -> dict[str, Any]:
    """The test metrics of an exported model, measured each time; the keys are those of `evaluate`.

    data_dir: of an image classifier a folder of labelled images, all of which are measured (of a
    folder with splits, its `test`), or the folder of its training's data; of another trainable its
    constant `data_dir`. Imports the trainable that the export names, and the network.
    Raises UsageError if that is no Learner with a `test` method, or for images that the model
    cannot be measured on, CheckpointError for weights that are missing, damaged, or not those of
    the trainable, and DataError for images that are not available.
    """
    config = export.config
    if data_dir is None:
        _refuse_final(config.refit)
    if config.model is not None and config.input is not None:
        metrics, details = _measure_classifier(
            export, config.model, config.input, data_dir
        )
    else:
        from tuner.trial.state import replace_weights

        path = config.trainable if trainable is None else parse_trainable(trainable)
        learner = _build_learner(path, config.config, config.training, data_dir)
        weights = export.load_weights()
        with translate_error(
            CheckpointError, f"{export.folder / EXPORTED} does not fit {path}"
        ):
            learner.load_state_dict(replace_weights(learner.state_dict(), weights))
        metrics = learner.test()
        details = _collect_details(learner)
    return _record(
        metrics, details, config.trial_id, config.epoch, config.checkpoint_sha256
    )


def _measure_classifier(
    export: Export, plan: Blueprint, pixels: ImageInput, data_dir: str | None
) -> tuple[Mapping[str, float], dict[str, Any]]:
    from tuner.vision.batches import build_image_set, load_image_set
    from tuner.vision.evaluation import measure, prepare_device

    device = prepare_device()
    config = export.config
    from_folder = str(config.training.get("dataset")).startswith("folder:")
    if data_dir is not None and (
        from_folder or is_labelled(Path(data_dir).expanduser(), config.classes)
    ):
        settings = export.parse_settings()
        how = Decoding(plan.image_size, pixels.bits, settings.skip_unreadable)
        decoded = decode_folder(
            data_dir, config.classes, channels=plan.in_channels, how=how
        )
        info, arrays = decoded.load_test_images(resolve_data_folder(None))
        if doubt := pixels.check_bits(info.bits):
            raise DataError(
                f"{data_dir} cannot be measured: its brightest image: {doubt}"
            )
        if info.skipped:
            _log.warning(
                f"without {summarize_names(info.skipped)}, which cannot be read"
            )
        data = config.data
        if data and data.content and info.content == data.content:
            _log.warning(
                f"{data_dir} holds the images that the model was trained on: {data.train:,} of "
                f"these {info.test:,} are its training split, so the metrics flatter"
            )
        images = build_image_set(info, arrays, device)
        names = resolve_paths(data_dir, decoded.read_names(resolve_data_folder(None)))
    else:
        constants = (
            replace_data_dir(config.training, data_dir) if data_dir else config.training
        )
        settings = build_trial_settings(constants, config.config, split=1)
        images = load_image_set(settings.data, device)
        names = list_image_names(settings.data)
        if images.info.classes != config.classes:
            has, knows = (
                ", ".join(each[:10]) for each in (images.info.classes, config.classes)
            )
            raise UsageError(
                f"{images.info.title} has classes {has}; the model knows {knows}"
            )
        if config.data and config.data.content:
            check_same(config.data.content, images.info)
    predictor = export.build_predictor(settings, device, trust_code=True)
    return measure(predictor, images, metrics=settings.metrics, names=names)


def _build_learner(
    path: str,
    config: Mapping[str, Any],
    constants: Mapping[str, Any],
    data_dir: str | None,
    *,
    cpus: float | None = None,
) -> Any:
    """A new Learner of the trainable at `path`, which has a method `test`."""
    from tuner.vision.evaluation import prepare_device

    trainable = import_trainable(path)
    cannot = UsageError(f"{path} has no method test(), so it cannot be evaluated")
    if not (has_test(trainable) or (is_learner(trainable) and not isclass(trainable))):
        raise cannot
    if data_dir is not None:
        constants = replace_data_dir(constants, data_dir)
    with translate_error(UsageError, f"{path} cannot be built"):
        single = {"device": prepare_device(cpus), "rank": 0, "world_size": 1}
        learner: Learner = trainable(config, dict(constants), **single)
    if not callable(getattr(learner, "test", None)):
        # A function's Learner exists only now
        raise cannot
    return learner


def _collect_details(learner: Any) -> dict[str, Any]:
    """What the Learner's last `test` found beside metrics."""
    return {name: getattr(learner, name, None) for name in DETAILS}


def _record(
    metrics: Mapping[str, float],
    details: Mapping[str, Any],
    trial_id: str,
    epoch: int,
    sha256: str,
) -> dict[str, Any]:
    values = {
        n: value if type(value) is int else float(value) for n, value in metrics.items()
    }
    record = {
        "trial_id": trial_id,
        "epoch": epoch,
        "checkpoint_sha256": sha256,
        **values,
    }
    return record | {
        n: value for n, value in details.items() if isinstance(value, DETAILS[n])
    }
