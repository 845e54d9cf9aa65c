"""Experiments whose trials run elsewhere: their specs, and their folders."""

from __future__ import annotations

from tuner.errors import Fault, SpecError, UsageError
from tuner.experiment.control import present_document
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.folder import ExperimentFolder
from tuner.planning.validation import ValidatedSpec, validate
from tuner.search.resuming import Extension, as_begun
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
    raw = more.applied_to(present_document(folder), folder)["spec"]
    moved = {"name": folder.name, "storage": folder.storage}
    return validate({**as_begun(raw), **moved}, source=folder.locate(EXPERIMENT))
