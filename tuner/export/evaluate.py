"""The held-out test split: measured once for a trial's best checkpoint, or anew for an export."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from inspect import isclass
from typing import Any

from tuner.classifier.catalog import moved
from tuner.classifier.trained_on import DATA, info_in
from tuner.classifier.transfer import EXPORTED
from tuner.errors import CheckpointError, UsageError, translate_error
from tuner.export.read import Export
from tuner.results.results import Results
from tuner.results.test_record import record_test, recorded_test
from tuner.spec.by_value import ByValue, is_by_value
from tuner.spec.experiment import ExperimentSpec, trainable_text
from tuner.trial.checkpoint_store import load_state
from tuner.trial.context import with_trial_seed
from tuner.trial.learner import Learner
from tuner.trial.loading import is_learner, load_trainable
from tuner.trial.shared_gpus import take


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
    measured = _measure(learner, trial.trial_id, checkpoint.epoch, checkpoint.sha256)
    record_test(results.folder, trial.trial_id, measured)
    return measured


def evaluate_export(
    export: Export, *, data_dir: str | None = None, trainable: Any = None
) -> dict[str, Any]:
    """The test metrics of an exported model; the keys are those of `evaluate`.

    Measured anew each time; nothing is written. Imports the trainable that the export names, and
    the network.
    Raises UsageError where that is no Learner with a `test` method, CheckpointError for weights
    that are missing, damaged, or not those of the trainable.
    """
    from tuner.trial.state import with_weights

    config = export.config
    path = _named(config.trainable, trainable)
    learner = _learner(path, config.config, config.training, data_dir)
    weights = export.weights()
    state = learner.state_dict()
    _refuse_other_classes(state, export)
    if DATA in state and config.input:  # the model knows pixels as they were normalised for it
        state[DATA] |= {"mean": list(config.input.mean), "std": list(config.input.std)}
    what = f"{export.folder / EXPORTED} does not fit {config.trainable}"
    with _translated(CheckpointError, what):
        learner.load_state_dict(with_weights(state, weights))
    return _measure(learner, config.trial_id, config.epoch, config.checkpoint_sha256)


def _refuse_other_classes(state: Mapping[str, Any], export: Export) -> None:
    """Raise UsageError where images of the user's own are of other classes than the model's."""
    data = info_in(state) if export.config.model else None
    if data and data.classes != export.config.classes:
        has, knows = (", ".join(names[:10]) for names in (data.classes, export.config.classes))
        raise UsageError(
            f"{data.title} has classes {has}; the model of {export.folder} knows {knows}"
        )


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
) -> Learner:
    """A new Learner of the trainable at `path`."""
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


def _measure(learner: Any, trial_id: str, epoch: int, sha256: str) -> dict[str, Any]:
    metrics = {name: float(value) for name, value in learner.test().items()}
    return {"trial_id": trial_id, "epoch": epoch, "checkpoint_sha256": sha256, **metrics}


def _translated(to: type[CheckpointError | UsageError], what: str) -> AbstractContextManager[None]:
    """Raise what a Learner raises as `to`: all of it, for it may name files or have many lines."""

    def told(error: Exception) -> str:
        return f"{what}: {f'{error} is missing' if isinstance(error, KeyError) else error}"

    return translate_error(to, told)
