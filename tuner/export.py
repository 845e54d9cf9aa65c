"""The best trial's weights, ready to hand over: a folder that opens without running code.

model.safetensors   the weights: the state's "model", else every tensor of the state by its
                    dotted name; or checkpoint/ with the files of a checkpoint folder
config.json         what rebuilds the model: trainable, training constants, the trial's config;
                    and where it comes from: experiment, trial, epoch, sha256, versions
metrics.json        the trial's metrics at that epoch, and the objective
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.checkpoints import Checkpoint
from tuner.errors import CheckpointError, UsageError
from tuner.history import TrialRecord
from tuner.training.checkpoint_store import load_state

if TYPE_CHECKING:
    import torch

    from tuner.results import Results

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
METRICS = "metrics.json"
FOLDER = "checkpoint"
FORMAT = 1  # of config.json


def export(results: Results, to: Path | str, *, trial_id: str | None = None) -> Path:
    """Write the best checkpoint of a trial (None: of the best trial) to the new folder `to`.

    Returns `to`. It appears whole or not at all: a kill can leave a hidden `.NAME.*.partial`
    beside it, never a half export. Raises UsageError where `to` exists and is not an empty
    folder, and what `Results.best_checkpoint` raises.
    """
    to = Path(to).expanduser()
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"cannot export to {to}: it exists and is not an empty folder")
    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    checkpoint = results.best_checkpoint(trial)
    target = to.resolve()
    partial = target.parent / f".{target.name}.{os.getpid()}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of a killed process that had our number
    try:
        partial.mkdir(parents=True)
        if checkpoint.path.is_dir():
            shutil.copytree(checkpoint.path, partial / FOLDER)
        else:
            _write_weights(checkpoint.path, partial / WEIGHTS)
        _write_json(partial / CONFIG, _config(results, trial, checkpoint))
        _write_json(partial / METRICS, _metrics(results, trial, checkpoint))
        if (partial / WEIGHTS).exists():  # which safetensors keeps from all but its owner
            shutil.copymode(partial / CONFIG, partial / WEIGHTS)
        partial.rename(target)
    except OSError as error:
        raise UsageError(f"cannot export to {to}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return to


def _config(results: Results, trial: TrialRecord, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "trainable": results.spec.get("trainable"),
        "training": results.spec.get("training", {}),
        "config": trial.config,
        "experiment": results.name,
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "checkpoint_sha256": checkpoint.sha256,
        "versions": results.document.get("versions", {}),
        "git_revision": results.document.get("git_revision"),
    }


def _metrics(results: Results, trial: TrialRecord, checkpoint: Checkpoint) -> dict[str, Any]:
    report = trial.report_at(checkpoint.epoch)
    return {
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "metrics": report.metrics if report else {},
        "objective": {"metric": results.metric, "mode": results.mode},
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _write_weights(source: Path, target: Path) -> None:
    from safetensors.torch import save_file

    state = load_state(source, None)  # which `Results.best_checkpoint` has verified
    model = state.get("model")
    found = list(_tensors(model if isinstance(model, dict) else state))
    if not found:
        raise CheckpointError(f"{source} holds no tensors to export")
    if len(found) > len(dict(found)):
        raise CheckpointError(f"{source} holds two tensors of one dotted name")
    try:
        # Copies: safetensors takes neither shared nor strided memory, and tied weights are both.
        save_file({name: t.detach().contiguous().clone() for name, t in found}, target)
    except (ValueError, KeyError, RuntimeError) as error:  # sparse, quantised
        raise CheckpointError(f"cannot write {source} as safetensors: {error}") from error


def _tensors(state: object, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """(dotted name, tensor) of every tensor in nested dicts, lists and tuples."""
    import torch

    if isinstance(state, torch.Tensor):
        yield prefix, state
    elif isinstance(state, dict | list | tuple):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        for name, inner in items:
            yield from _tensors(inner, f"{prefix}.{name}" if prefix else str(name))
