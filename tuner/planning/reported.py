"""The metrics that the classifier that ships reports only where it is told to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tuner.errors import Fault
from tuner.spec.experiment import ExperimentSpec
from tuner.vision.recipe import OPTIONAL_METRICS

OPTIONAL = {f"val_{name}": name for name in OPTIONAL_METRICS}  # by what they are reported as


def reporting(spec: ExperimentSpec) -> ExperimentSpec:
    """`spec`, the classifier that ships being told to report the objective's metric."""
    named = spec.training.get("metrics", [])
    named = [named] if isinstance(named, str) else named
    wanted = OPTIONAL.get(spec.objective.metric)
    if not (spec.ships and wanted and isinstance(named, list)) or wanted in named:
        return spec
    return spec.model_copy(update={"training": {**spec.training, "metrics": [*named, wanted]}})


def of_the_objective(faults: Iterable[Fault], spec: ExperimentSpec) -> Iterator[Fault]:
    """The faults of `reporting(spec)`, under the keys that the user has written in `spec`."""
    for fault in faults:
        unasked = fault.key == "training.metrics" and "metrics" not in spec.training
        yield replace(fault, key="objective.metric") if unasked else fault
