"""The held-out test split, measured for a trial's best checkpoint, once, or for an export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import isclass
from typing import Any

from tuner.classifier.transfer import EXPORTED
from tuner.errors import CheckpointError, TunerError, UsageError
from tuner.export.read import Export
from tuner.export.test_metrics import keep, recorded
from tuner.results.results import Results
from tuner.trial.checkpoint_store import load_state
from tuner.trial.context import with_trial_seed
from tuner.trial.learner import Learner
from tuner.trial.loading import is_learner, load_trainable


def evaluate(
    results: Results, trial_id: str | None = None, *, data_dir: str | None = None
) -> dict[str, Any]:
    """The test metrics of a trial's best checkpoint (None: of the best trial's).

    Returns {trial_id, epoch, checkpoint_sha256, test_accuracy, test_loss, ...}. What was measured
    is kept beside the trial, and a second call reads it. Imports the trainable that the
    experiment names. data_dir: where its data lies (None: where it lay for the search). Raises
    UsageError where the trainable cannot be imported or built, or has no method `test`,
    CheckpointError where it does not take the checkpoint, and what `Results.best_checkpoint`
    raises.
    """
    from tuner.spec.experiment import build_spec

    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    checkpoint = results.best_checkpoint(trial)
    known = recorded(results.folder, trial.trial_id, checkpoint)
    if known is not None:
        return known
    spec = build_spec(results.spec, str(results.folder))
    learner = _learner(
        spec.trainable, trial.config, with_trial_seed(spec.constants, trial.seed), data_dir
    )
    state = load_state(checkpoint.path, None)  # verified when it was found
    with _told(CheckpointError, f"{checkpoint.path} does not fit {spec.trainable}"):
        learner.load_state_dict(state)
    measured = {
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "checkpoint_sha256": checkpoint.sha256,
        **_measure(learner),
    }
    keep(results.folder, trial.trial_id, measured)
    return measured


def evaluate_export(export: Export, *, data_dir: str | None = None) -> dict[str, Any]:
    """The test metrics of an exported model; the keys are those of `evaluate`.

    Measured anew each time; nothing is written. Imports the trainable that the export names.
    Raises UsageError where that is no Learner with a `test` method, CheckpointError for weights
    that are missing, damaged, or not those of the trainable.
    """
    from tuner.trial.state import with_weights

    config = export.config
    learner = _learner(config.trainable, config.config, config.training, data_dir)
    weights = export.weights()
    with _told(CheckpointError, f"{export.folder / EXPORTED} does not fit {config.trainable}"):
        state = with_weights(learner.state_dict(), weights)
        learner.load_state_dict(state)
    return {
        "trial_id": config.trial_id,
        "epoch": config.epoch,
        "checkpoint_sha256": config.checkpoint_sha256,
        **_measure(learner),
    }


def can_evaluate(spec: Mapping[str, Any]) -> bool:
    """Whether the trainable that a resolved spec names can measure a test split.

    Raises UsageError where it cannot be imported.
    """
    return _measures(_imported(spec["trainable"]))


def _measures(trainable: Any) -> bool:
    return is_learner(trainable) and callable(getattr(trainable, "test", None))


def _learner(
    path: str, config: Mapping[str, Any], constants: Mapping[str, Any], data_dir: str | None
) -> Learner:
    """A new Learner of the trainable at `path`."""
    trainable = _imported(path)
    lacking = UsageError(f"{path} has no method test(), so it cannot be evaluated")
    if not (_measures(trainable) or (is_learner(trainable) and not isclass(trainable))):
        raise lacking
    import torch

    moved = {} if data_dir is None else {"data_dir": data_dir}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with _told(UsageError, f"{path} cannot be built"):
        learner: Learner = trainable(
            config, {**constants, **moved}, device=device, rank=0, world_size=1
        )
    if not callable(getattr(learner, "test", None)):  # a function's Learner shows only now
        raise lacking
    return learner


def _imported(path: str) -> Any:
    with _told(UsageError, f"cannot import {path}"):
        return load_trainable(path)


@contextmanager
def _told(kind: type[TunerError], what: str) -> Iterator[None]:
    """Raise an error of `kind` that says `what` where a Learner raises one of whatever kind."""
    try:
        yield
    except TunerError:
        raise
    except Exception as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise kind(f"{what}: {reason}") from error


def _measure(learner: Any) -> dict[str, float]:
    return {name: float(value) for name, value in learner.test().items()}
