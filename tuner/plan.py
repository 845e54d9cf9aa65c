"""What a spec comes to: how many trials, what each reserves, how many fit at once."""

from __future__ import annotations

from typing import Any

from tuner.reporting.wording import duration
from tuner.spec import ExperimentSpec, Resources
from tuner.validation import Machine


def plan_of(spec: ExperimentSpec, *, here: bool) -> dict[str, Any]:
    """{trials, epochs_a_trial, a_trial_reserves, at_once}, in words where a number is not known.

    here: whether it runs on this machine; a cluster's size is not known before it is joined.
    """
    resources = spec.resources
    plan: dict[str, Any] = {
        "trials": spec.trials or f"as many as {duration(spec.time_budget_s or 0)} allow",
        "epochs_a_trial": spec.epochs or "as many as the function reports",
        "a_trial_reserves": {
            "cpus": resources.cpus * resources.workers,
            "gpus": resources.gpus * resources.workers,
        },
    }
    if here:
        fits = fit(resources, Machine.here())
        plan["at_once"] = min(fits, spec.max_concurrent or fits)
    return plan


def fit(resources: Resources, machine: Machine) -> int:
    """How many trials of these resources run side by side on the machine."""
    fits = int(machine.cpus / (resources.cpus * resources.workers) + 1e-9)
    if resources.gpus >= 1:
        return min(fits, int(machine.gpus / (resources.gpus * resources.workers)))
    if resources.gpus:  # a share lies on one GPU, never across two
        return min(fits, int(machine.gpus) * int(1 / resources.gpus + 1e-9))
    return fits
