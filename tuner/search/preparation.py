"""From a spec to a plan: everything that is decided and checked before a search starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tuner.experiment.folder import ExperimentFolder
from tuner.spec.declaration import Declaration, PinnedData, load_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.validation import Machine, validate

if TYPE_CHECKING:
    from tuner.search.warm_start import WarmStart


@dataclass(frozen=True, slots=True)
class Plan:
    """A search that can start.

    spec: checked, with open settings decided; it is recorded. is_here: trials run on this machine.
    warm_start: trials of earlier experiments. data: what all trials read, None until it is pinned.
    """

    spec: ExperimentSpec
    is_here: bool = True
    warm_start: WarmStart | None = None
    data: PinnedData | None = None

    @property
    def declaration(self) -> Declaration:
        return load_declaration(self.spec.trainable)

    @property
    def skipped(self) -> int:
        """How many configs the warm start leaves out."""
        return self.warm_start.count_skipped(self.spec.search) if self.warm_start else 0

    @property
    def trials(self) -> int | None:
        """How many trials there will be; None where only the time budget ends the search."""
        return self.spec.count_trials(self.skipped)

    @property
    def trained_spec(self) -> ExperimentSpec:
        """The spec as trials get it, with the constants of the pinned data."""
        return self.data.apply(self.spec) if self.data else self.spec

    def pin_data(self, *, download: bool = True) -> Plan:
        """The plan with its data fixed, unless that needs a `download`. Raises as Declaration's."""
        if self.data is not None:
            return self
        data = self.declaration.pin_data(
            self.spec, download=download, here=self.is_here
        )
        return replace(self, data=data)


def prepare(
    spec: ExperimentSpec | Mapping[str, Any],
    *,
    source: str = "the spec",
    machine: Machine | None = None,
    recorded: bool = False,
    is_new: bool = False,
) -> Plan:
    """The plan of a spec, or of its plain values, on `machine` (None: a cluster).

    recorded: it is of a search that has begun, which has its warm start in its folder. is_new: its
    folder must not exist. Raises as `validate` and `build_warm_start`, and NameTakenError.
    """
    plan = Plan(
        validate(spec, source=source, machine=machine, recorded=recorded),
        is_here=machine is not None,
    )
    if is_new:
        ExperimentFolder(plan.spec.folder).refuse_taken()
    if recorded or plan.spec.warm_start is None:
        return plan
    from tuner.search.warm_start import build_warm_start  # numpy

    return replace(plan, warm_start=build_warm_start(plan.spec))
