"""What a spec comes to: how many trials, what each reserves, how many fit at once."""

from __future__ import annotations

from typing import Any

from tuner.spec import ExperimentSpec
from tuner.validation import Machine


def plan_of(spec: ExperimentSpec, *, here: bool) -> dict[str, Any]:
    """{trials, epochs_a_trial, a_trial_reserves, at_once}, in words where a number is not known.

    here: whether it runs on this machine; a cluster's size is not known before it is joined.
    """
    resources = spec.resources
    plan: dict[str, Any] = {
        "trials": spec.trials or f"as many as {spec.time_budget_s:g} s allow",
        "epochs_a_trial": spec.epochs or "as many as the function reports",
        "a_trial_reserves": {
            "cpus": resources.cpus * resources.workers,
            "gpus": resources.gpus * resources.workers,
        },
    }
    if here:
        machine = Machine.here(gpus=resources.gpus > 0)
        fits = int(machine.cpus / (resources.cpus * resources.workers))
        if resources.gpus:
            fits = min(fits, int(machine.gpus / (resources.gpus * resources.workers)))
        plan["at_once"] = min(fits, spec.max_concurrent or fits)
    return plan
