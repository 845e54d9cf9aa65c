"""The held-out test split: measured once for a trial's best checkpoint, or anew for an export."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import CheckpointError, SpecError, UsageError, translate_error
from tuner.experiment.results.best import record_test, recorded_test
from tuner.experiment.results.results import Results
from tuner.settings import parse
from tuner.spec.by_value import ByValue, is_by_value
from tuner.spec.experiment import ExperimentSpec, trainable_text
from tuner.spec.loading import is_learner, load_trainable
from tuner.spec.space.spaces import merged
from tuner.trial.checkpoint_store import load_state
from tuner.trial.context import with_trial_seed
from tuner.trial.gpus import take
from tuner.trial.learner import Learner
from tuner.vision.blueprint import Blueprint
from tuner.vision.catalog import labelled_folder, moved
from tuner.vision.datasets._dataset import check_same, data_folder
from tuner.vision.export.read import CONFIG, Export, ImageInput
from tuner.vision.settings import ClassifierSettings, settings_of_trial
from tuner.vision.sources._decoded import Decoding
from tuner.vision.sources.folder import is_labelled
from tuner.vision.transfer import EXPORTED
from tuner.wording import some_of

if TYPE_CHECKING:
    import torch

    from tuner.vision.batches import ImageSet

_log = logging.getLogger(__name__)


def evaluate(
    results: Results,
    trial_id: str | None = None,
    *,
    data_dir: str | None = None,
    trainable: Any = None,
) -> dict[str, Any]:
    """The test metrics of a trial's best checkpoint (None: of the best trial's).

    Returns {trial_id, epoch, checkpoint_sha256, test_accuracy, test_loss, ...}, which is recorded
    in the trial's folder, where a second call reads it. Imports the trainable that the experiment
    names. trainable: that one itself, where it was given by value. data_dir: where its data lies
    (None: where it lay for the search). Raises UsageError where the trainable cannot be imported or
    built, or has no method `test`, CheckpointError where it does not take the checkpoint, and what
    `Results.best_checkpoint` raises.
    """
    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    checkpoint = results.best_checkpoint(trial)
    known = recorded_test(results.folder, trial.trial_id, checkpoint)
    if known is not None:
        return known
    spec = results.spec
    constants = with_trial_seed(spec.constants, trial.seed)
    take(spec.resources.gpus)
    learner = _learner(_named(spec.trainable, trainable), trial.config, constants, data_dir)
    state = load_state(checkpoint.path, None)  # `best_checkpoint` has compared its digest
    with _translated(CheckpointError, f"{checkpoint.path} does not fit {spec.trainable}"):
        learner.load_state_dict(state)
    measured = _record(learner.test(), trial.trial_id, checkpoint.epoch, checkpoint.sha256)
    record_test(results.folder, trial.trial_id, measured)
    return measured


def evaluate_export(
    export: Export, *, data_dir: str | None = None, trainable: Any = None
) -> dict[str, Any]:
    """The test metrics of an exported model; the keys are those of `evaluate`.

    data_dir: of an image classifier a folder of labelled images, all of which are measured (of one
    that holds splits, its `test`), or where the data set of its training lies; of another trainable
    its constant `data_dir`. Measured anew each time; nothing is written. Imports the trainable that
    the export names, and the network.
    Raises UsageError where that is no Learner with a `test` method, or for images that the model
    cannot be measured on, CheckpointError for weights that are missing, damaged, or not those of
    the trainable, and DataError for images that cannot be had.
    """
    config = export.config
    if config.model is not None and config.input is not None:
        metrics = _of_classifier(export, config.model, config.input, data_dir)
    else:
        metrics = _of_learner(export, _named(config.trainable, trainable), data_dir)
    return _record(metrics, config.trial_id, config.epoch, config.checkpoint_sha256)


def _of_learner(export: Export, path: str, data_dir: str | None) -> Mapping[str, float]:
    from tuner.trial.state import with_weights

    learner = _learner(path, export.config.config, export.config.training, data_dir)
    weights = export.weights()
    with _translated(CheckpointError, f"{export.folder / EXPORTED} does not fit {path}"):
        learner.load_state_dict(with_weights(learner.state_dict(), weights))
    metrics: Mapping[str, float] = learner.test()
    return metrics


def _of_classifier(
    export: Export, plan: Blueprint, pixels: ImageInput, data_dir: str | None
) -> Mapping[str, float]:
    import torch

    from tuner.vision.evaluation import measure

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = export.config
    if data_dir is not None and _is_labelled(export, data_dir):
        settings, faults = parse(ClassifierSettings, merged(config.training, config.config))
        if settings is None:
            raise SpecError(faults, str(export.folder / CONFIG))
        images = _labelled(export, plan, pixels, settings, data_dir, device)
    else:
        constants = moved(config.training, data_dir) if data_dir else config.training
        settings = settings_of_trial(constants, config.config, split=1)
        images = _trained_on(export, plan, settings, device)
    # The model knows pixels as they were normalised for it
    info = replace(images.info, mean=pixels.mean, std=pixels.std)
    model = export.model(trust_code=True)
    return measure(model, plan, settings, replace(images, info=info), device)


def _is_labelled(export: Export, folder: str) -> bool:
    trained_on_folder = str(export.config.training.get("dataset")).startswith("folder:")
    return trained_on_folder or is_labelled(Path(folder).expanduser(), export.config.classes)


def _labelled(
    export: Export,
    plan: Blueprint,
    pixels: ImageInput,
    settings: ClassifierSettings,
    folder: str,
    device: torch.device,
) -> ImageSet:
    """All images of a folder."""
    from tuner.vision.batches import image_set_of

    classes, data = export.config.classes, export.config.data
    how = Decoding(plan.image_size, pixels.bits, settings.skip_unreadable)
    found = labelled_folder(folder, classes, channels=plan.in_channels, how=how)
    info, arrays = found.to_measure(data_folder(None))
    if info.skipped:
        _log.warning(f"without {some_of(info.skipped)}, which cannot be read")
    if data and data.content and info.content == data.content:
        _log.warning(
            f"{folder} holds the images that the model was trained on: {data.train:,} of these "
            f"{info.test:,} are its training split, so the metrics flatter"
        )
    return image_set_of(info, arrays, device)


def _trained_on(
    export: Export, plan: Blueprint, settings: ClassifierSettings, device: torch.device
) -> ImageSet:
    """The data set of the training. Raises DataError where its images have changed."""
    from tuner.vision.batches import image_set

    images = image_set(settings, device)
    info, data = images.info, export.config.data
    if info.classes != export.config.classes:
        has, knows = (", ".join(names[:10]) for names in (info.classes, export.config.classes))
        raise UsageError(f"{info.title} has classes {has}; the model knows {knows}")
    if data and data.content:
        known = {**data.model_dump(), "classes": info.classes, "image_size": plan.image_size}
        check_same(known, info)
    return images


def can_evaluate(spec: ExperimentSpec) -> bool:
    """Whether the trainable that a resolved spec names can measure a test split.

    One that was given by value is not at hand. Raises UsageError where it cannot be imported.
    """
    given = is_by_value(spec.trainable) and not isinstance(spec.trainable, ByValue)
    return not given and _has_test(_import(spec.trainable))


def _has_test(trainable: Any) -> bool:
    return is_learner(trainable) and callable(getattr(trainable, "test", None))


def _named(recorded: str, given: Any) -> str:
    """The trainable that is recorded, with itself where it is given."""
    return recorded if given is None else trainable_text(given)


def _import(path: str) -> Any:
    with _translated(UsageError, f"cannot import {path}"):
        return load_trainable(path)


def _learner(
    path: str, config: Mapping[str, Any], constants: Mapping[str, Any], data_dir: str | None
) -> Any:
    """A new Learner of the trainable at `path`, which has a method `test`."""
    trainable = _import(path)
    cannot = UsageError(f"{path} has no method test(), so it cannot be evaluated")
    if not (_has_test(trainable) or (is_learner(trainable) and not isclass(trainable))):
        raise cannot
    import torch

    if data_dir is not None:
        constants = moved(constants, data_dir)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with _translated(UsageError, f"{path} cannot be built"):
        learner: Learner = trainable(config, dict(constants), device=device, rank=0, world_size=1)
    if not callable(getattr(learner, "test", None)):  # a function's Learner shows only now
        raise cannot
    return learner


def _record(metrics: Mapping[str, float], trial_id: str, epoch: int, sha256: str) -> dict[str, Any]:
    values = {n: value if type(value) is int else float(value) for n, value in metrics.items()}
    return {"trial_id": trial_id, "epoch": epoch, "checkpoint_sha256": sha256, **values}


def _translated(to: type[CheckpointError | UsageError], what: str) -> AbstractContextManager[None]:
    """Raise what a Learner raises as `to`: all of it, for it may name files or have many lines."""

    def told(error: Exception) -> str:
        return f"{what}: {f'{error} is missing' if isinstance(error, KeyError) else error}"

    return translate_error(to, told)
