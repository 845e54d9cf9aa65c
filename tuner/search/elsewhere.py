"""Experiments whose trials run elsewhere: their specs, and their folders."""

from __future__ import annotations

from typing import Any

from tuner.errors import Fault, SpecError, UsageError
from tuner.planning.validation import ValidatedSpec, validate
from tuner.record.control import answers
from tuner.record.files import EXPERIMENT, JOURNAL
from tuner.record.folder import ExperimentFolder
from tuner.record.steered import present
from tuner.search.provenance import describe
from tuner.search.resuming import Extension, as_begun
from tuner.search.warm_start import load_warm_start, warm_start_of
from tuner.spec.code import ELSEWHERE
from tuner.spec.experiment import ExperimentSpec


def validated(spec: ExperimentSpec) -> ValidatedSpec:
    """The spec of a new experiment, whose trainable may be left out. Raises SpecError."""
    if "trainable" not in spec.model_fields_set:
        spec = spec.replace(trainable=ELSEWHERE)
    if not spec.is_elsewhere:
        rule = f"must be {ELSEWHERE!r}, or left out: what asks for configs trains by itself"
        raise SpecError([Fault("trainable", rule, str(spec.trainable))])
    return spec if isinstance(spec, ValidatedSpec) else validate(spec)


def create(spec: ValidatedSpec) -> None:
    """Make the experiment's folder. Raises as `ExperimentFolder.create` and `warm_start_of` do."""
    warm_start = warm_start_of(spec)  # refuses what does not match before there is a folder
    ExperimentFolder(spec.folder).create(describe(spec), empty=[JOURNAL])
    if warm_start:
        warm_start.save(spec.folder)
        spec.leave_out(warm_start.left_out(spec.search))


def recorded(folder: ExperimentFolder, more: Extension) -> ValidatedSpec:
    """The spec of the experiment in `folder`, extended.

    Raises UsageError where there is none, or its trials do not run elsewhere, and SpecError.
    """
    folder.refresh()
    raw = folder.document()["spec"]
    if raw.get("trainable") != ELSEWHERE:
        raise UsageError(
            f"the trials of {folder.name} do not run elsewhere: it trains {raw.get('trainable')}"
        )
    raw = more.applied_to(document_of(folder), name=folder.name)["spec"]
    moved = {"name": folder.name, "storage": folder.storage}
    spec = validate({**as_begun(raw), **moved}, source=folder.locate(EXPERIMENT))
    if warm_start := load_warm_start(spec):
        spec.leave_out(warm_start.left_out(spec.search))
    return spec


def document_of(folder: ExperimentFolder) -> dict[str, Any]:
    """Its experiment.json, with what the journaled controls have made of its spec."""
    return present(folder.document(), answers(folder))
