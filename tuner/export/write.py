"""The best trial's model, ready to hand over: a folder that opens without running code.

model.safetensors   the weights: the state's "model", else every tensor of the state by its
                    dotted name; or checkpoint/ with the files of a checkpoint folder
config.json         what rebuilds the model, and where it comes from: `ExportConfig`
metrics.json        the trial's metrics at that epoch, the objective, and what was measured of the
                    test split and with fresh seeds; null where it was not
README.md           the model card, of the two above
model.onnx, .pt2    the model without tuner, in the formats asked for
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.classifier.blueprint import blueprint_of
from tuner.classifier.catalog import DATASETS
from tuner.classifier.settings import ClassifierSettings, check_settings
from tuner.classifier.transfer import EXPORTED
from tuner.errors import CheckpointError, SpecError, UsageError
from tuner.export import interchange
from tuner.export.model_card import card_text
from tuner.export.read import (
    CARD,
    CONFIG,
    FOLDER,
    METRICS,
    Data,
    Export,
    ExportConfig,
    ImageInput,
)
from tuner.export.test_metrics import recorded
from tuner.record.checkpoints import Checkpoint
from tuner.record.digest import sha256_of
from tuner.record.history import TrialRecord
from tuner.settings_base import parse
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.trial.checkpoint_store import load_state
from tuner.trial.context import with_trial_seed

if TYPE_CHECKING:
    from tuner.results.results import Results


def export(
    results: Results,
    to: Path | str,
    *,
    trial_id: str | None = None,
    formats: Collection[str] = (),
    search: Results | None = None,
    confirmed: Mapping[str, Any] | None = None,
) -> Path:
    """Write the best checkpoint of a trial (None: of the best trial) to the new folder `to`.

    formats: of `interchange.FILES`, to be written beside the weights. search: what found the
    config, where that is not `results`; confirmed: what retraining it has shown, as `tuner best
    --json` says it. Returns `to`. It appears whole or not at all: a kill can leave a hidden
    `.NAME.*.partial` beside it, never a half export. Raises UsageError where `to` exists and is
    not an empty folder, or a format cannot be written, and what `Results.best_checkpoint` raises.
    """
    to = Path(to).expanduser()
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"cannot export to {to}: it exists and is not an empty folder")
    spec = build_spec(results.spec, str(results.folder))
    if formats and not spec.ships:
        raise UsageError(
            f"{', '.join(formats)} is written of the image classifier that ships; "
            f"{spec.trainable} must write it itself"
        )
    interchange.check_formats(formats)
    trial = results.get_best_trial() if trial_id is None else results.trial(trial_id)
    checkpoint = results.best_checkpoint(trial)
    target = to.resolve()
    partial = target.parent / f".{target.name}.{os.getpid()}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of a killed process that had our number
    try:
        partial.mkdir(parents=True)
        digest = _write_checkpoint(checkpoint.path, partial)
        config = _config(results, spec, trial, checkpoint, digest, _search(search or results))
        metrics = _metrics(results, trial, checkpoint, confirmed)
        _write_json(partial / CONFIG, config.model_dump(mode="json"))
        _write_json(partial / METRICS, metrics)
        (partial / CARD).write_text(card_text(config, metrics, name=target.name), encoding="utf-8")
        _write_formats(Export(partial, config), formats)
        for path in partial.iterdir():  # safetensors keeps its file from all but its owner
            if path.is_file():
                shutil.copymode(partial / CONFIG, path)
        partial.rename(target)
    except OSError as error:
        raise UsageError(f"cannot export to {to}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return to


def _config(
    results: Results,
    spec: ExperimentSpec,
    trial: TrialRecord,
    checkpoint: Checkpoint,
    weights_sha256: str | None,
    search: dict[str, Any],
) -> ExportConfig:
    values = {
        **_described(spec, trial),
        "weights_sha256": weights_sha256,
        "experiment": results.name,
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "checkpoint_sha256": checkpoint.sha256,
        "search": search,
        "versions": results.document.get("versions", {}),
        "git_revision": results.document.get("git_revision"),
    }
    config, faults = parse(ExportConfig, values)
    if config is None:  # what experiment.json says beside the spec is not checked before
        raise SpecError(faults, f"the export of {results.folder}")
    return config


def _described(spec: ExperimentSpec, trial: TrialRecord) -> dict[str, Any]:
    """What the Learner was built with, and of the classifier that ships its model and data."""
    constants = with_trial_seed(spec.constants, trial.seed)
    own: dict[str, Any] = {
        "trainable": spec.trainable,
        "training": constants,
        "config": trial.config,
        "seed": trial.trained_with(constants["seed"]),
        "model": None,
        "input": None,
        "data": None,
    }
    if not spec.ships:
        return own
    values = {**constants, **trial.config}
    if faults := check_settings(values, files=False):
        raise SpecError(faults, f"trial {trial.trial_id}")
    settings = ClassifierSettings.model_validate(values)
    info = DATASETS[settings.dataset]
    return own | {
        "training": _without_folders(constants),
        "model": blueprint_of(settings),
        "input": ImageInput(
            dtype=settings.dtype, mean=info.mean, std=info.std, mirrored=settings.test_time_flip
        ),
        "classes": info.classes,
        "data": Data(
            name=settings.dataset,
            **{name: getattr(info, name) for name in ("title", "origin", "licence")},
            **{name: getattr(info, name) for name in ("train", "validation", "test")},
            split_seed=settings.split_seed,
        ),
    }


def _without_folders(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Without where data and weights lay: that is of this machine, and nobody else's business."""
    kept = {name: value for name, value in constants.items() if name != "data_dir"}
    if kept.get("start_from"):
        kept["start_from"] = Path(kept["start_from"]).name
    return kept


def _search(results: Results) -> dict[str, Any]:
    spec = build_spec(results.spec, str(results.folder)).model_dump(mode="json")
    return {
        "experiment": results.name,
        "strategy": spec["search"]["strategy"],
        "space": spec["search"]["space"],
        "scheduler": spec["scheduler"],
        "seed": spec["seed"],
        "counts": results.counts,
    }


def _metrics(
    results: Results,
    trial: TrialRecord,
    checkpoint: Checkpoint,
    confirmed: Mapping[str, Any] | None,
) -> dict[str, Any]:
    report = trial.report_at(checkpoint.epoch)
    measured = recorded(results.folder, trial.trial_id, checkpoint) or {}
    test = {name: value for name, value in measured.items() if name.startswith("test_")}
    return {
        "trial_id": trial.trial_id,
        "epoch": checkpoint.epoch,
        "metrics": report.metrics if report else {},
        "objective": {"metric": results.metric, "mode": results.mode},
        "test": test or None,
        "confirmed": confirmed and dict(confirmed),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _write_formats(export: Export, formats: Collection[str]) -> None:
    plan = export.config.model
    if not formats or plan is None:
        return
    model = export.model()
    for name in formats:
        shape = plan.in_channels, plan.image_size, plan.image_size
        interchange.write(model, name, export.folder, shape=shape)


def _write_checkpoint(source: Path, folder: Path) -> str | None:
    """The sha256 of the weights; None where `source` is a folder, which is copied as it is."""
    if source.is_dir():
        shutil.copytree(source, folder / FOLDER)
        return None
    _write_weights(source, folder / EXPORTED)
    return sha256_of(folder / EXPORTED)


def _write_weights(source: Path, target: Path) -> None:
    from safetensors.torch import save_file

    from tuner.trial.state import weights_of

    found = weights_of(load_state(source, None))  # which `Results.best_checkpoint` has verified
    if not found:
        raise CheckpointError(f"{source} holds no tensors to export")
    if len(found) > len(dict(found)):
        raise CheckpointError(f"{source} holds two tensors of one dotted name")
    try:
        # Copies: safetensors takes neither shared nor strided memory, and tied weights are both.
        save_file({name: t.detach().contiguous().clone() for name, t in found}, target)
    except (ValueError, KeyError, RuntimeError) as error:  # sparse, quantised
        raise CheckpointError(f"cannot write {source} as safetensors: {error}") from error
