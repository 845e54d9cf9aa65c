"""The held-out test split: measured once for a trial's best checkpoint, or anew for an export."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from inspect import isclass
from pathlib import Path
from typing import Any

from tuner.classifier.transfer import EXPORTED
from tuner.errors import CheckpointError, UsageError, translate_error
from tuner.export.read import Export
from tuner.record.checkpoints import Checkpoint
from tuner.record.folder import ExperimentFolder
from tuner.results.results import Results
from tuner.spec.experiment import ExperimentSpec
from tuner.trial.checkpoint_store import load_state
from tuner.trial.context import with_trial_seed
from tuner.trial.learner import Learner
from tuner.trial.loading import is_learner, load_trainable


def evaluate(
    results: Results, trial_id: str | None = None, *, data_dir: str | None = None
) -> dict[str, Any]:
    """The test metrics of a trial's best checkpoint (None: of the best trial's).

    Returns {trial_id, epoch, checkpoint_sha256, test_accuracy, test_loss, ...}, which is recorded
    in the trial's folder, where a second call reads it. Imports the trainable that the experiment
    names. data_dir: where its data lies (None: where it lay for the search). Raises UsageError
    where the trainable cannot be imported or built, or has no method `test`, CheckpointError where
    it does not take the checkpoint, and what `Results.best_checkpoint` raises.
    """
    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    checkpoint = results.best_checkpoint(trial)
    known = recorded_test(results.folder, trial.trial_id, checkpoint)
    if known is not None:
        return known
    spec = results.spec
    constants = with_trial_seed(spec.constants, trial.seed)
    learner = _learner(spec.trainable, trial.config, constants, data_dir)
    state = load_state(checkpoint.path, None)  # `best_checkpoint` has compared its digest
    with _translated(CheckpointError, f"{checkpoint.path} does not fit {spec.trainable}"):
        learner.load_state_dict(state)
    measured = _measure(learner, trial.trial_id, checkpoint.epoch, checkpoint.sha256)
    record_test(results.folder, trial.trial_id, measured)
    return measured


def evaluate_export(export: Export, *, data_dir: str | None = None) -> dict[str, Any]:
    """The test metrics of an exported model; the keys are those of `evaluate`.

    Measured anew each time; nothing is written. Imports the trainable that the export names, and
    the network.
    Raises UsageError where that is no Learner with a `test` method, CheckpointError for weights
    that are missing, damaged, or not those of the trainable.
    """
    from tuner.trial.state import with_weights

    config = export.config
    learner = _learner(config.trainable, config.config, config.training, data_dir)
    weights = export.weights()
    what = f"{export.folder / EXPORTED} does not fit {config.trainable}"
    with _translated(CheckpointError, what):
        learner.load_state_dict(with_weights(learner.state_dict(), weights))
    return _measure(learner, config.trial_id, config.epoch, config.checkpoint_sha256)


def can_evaluate(spec: ExperimentSpec) -> bool:
    """Whether the trainable that a resolved spec names can measure a test split.

    Raises UsageError where it cannot be imported.
    """
    return _has_test(_import(spec.trainable))


def recorded_test(folder: Path, trial_id: str, checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What was measured of this checkpoint before; None where nothing was.

    folder: the experiment's.
    """
    files, name = ExperimentFolder(folder), _record(trial_id)
    try:
        files.fetch(name)
        known = files.read(name)
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and known.get("checkpoint_sha256") == checkpoint.sha256
    return known if same and set(map(type, known.values())) <= {str, int, float} else None


def record_test(folder: Path, trial_id: str, measured: dict[str, Any]) -> None:
    """Write what `recorded_test` reads; raises UsageError as `ExperimentFolder.check` does."""
    ExperimentFolder(folder).write(_record(trial_id), measured)


def _record(trial_id: str) -> str:
    return f"trials/{trial_id}/test.json"


def _has_test(trainable: Any) -> bool:
    return is_learner(trainable) and callable(getattr(trainable, "test", None))


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
        constants = {**constants, "data_dir": data_dir}
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
