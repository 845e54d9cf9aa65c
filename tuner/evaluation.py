"""The held-out test split, measured once for a trial's best checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tuner.checkpoints import Checkpoint
from tuner.errors import UsageError
from tuner.history import TrialRecord
from tuner.results import Results
from tuner.storage import write_document
from tuner.training.checkpoint_store import load_state
from tuner.training.loading import is_learner, load_trainable
from tuner.training.worker import own_seed

_RECORD = "test.json"  # in the trial's folder


def evaluate(results: Results, trial_id: str | None = None) -> dict[str, Any]:
    """The test metrics of a trial's best checkpoint (None: of the best trial's).

    Returns {trial_id, epoch, checkpoint_sha256, test_accuracy, test_loss, ...}. What was measured
    is kept beside the trial, and a second call reads it. Imports the trainable that the
    experiment names. Raises UsageError where that is no Learner with a `test` method, and what
    `Results.best_checkpoint` raises.
    """
    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    checkpoint = results.best_checkpoint(trial)
    record = results.folder / "trials" / trial.trial_id / _RECORD
    known = _recorded(record, checkpoint)
    if known is not None:
        return known
    measured = {
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "checkpoint_sha256": checkpoint.sha256,
        **_measure(results.spec, trial, checkpoint),
    }
    write_document(record, measured)
    return measured


def can_evaluate(spec: dict[str, Any]) -> bool:
    """Whether the trainable that a resolved spec names can measure a test split."""
    trainable = load_trainable(spec["trainable"])
    return is_learner(trainable) and callable(getattr(trainable, "test", None))


def _measure(spec: dict[str, Any], trial: TrialRecord, checkpoint: Checkpoint) -> dict[str, Any]:
    from tuner.spec import build_spec

    if not can_evaluate(spec):
        raise UsageError(f"{spec['trainable']} has no method test(), so it cannot be evaluated")
    import torch

    learner = load_trainable(spec["trainable"])(
        trial.config,
        build_spec(spec).constants | own_seed(trial.seed),
        device=torch.device("cuda" if torch.cuda.is_available() else "cpu"),
        rank=0,
        world_size=1,
    )
    learner.load_state_dict(load_state(checkpoint.path, None))  # verified when it was found
    return {name: float(value) for name, value in learner.test().items()}


def _recorded(path: Path, checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What was measured of the same checkpoint before; None where nothing was."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and known.get("checkpoint_sha256") == checkpoint.sha256
    return known if same else None
