"""Specs that come over HTTP: which keys they may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import Fault, UsageError
from tuner.spec.code import ELSEWHERE, find_code, list_trial_sections
from tuner.spec.experiment import COMPLETE_STORAGE, ExperimentSpec, is_name
from tuner.spec.plain_values import find_value_fault

# Other keys write, send or read where the user has not said
SETTABLE = {
    "name",
    "trainable",
    "training",
    "search",
    "objective",
    "scheduler",
    "resources",
    "timeouts",
    "checkpoints",
    "stop",
    "num_samples",
    "max_concurrent",
    "time_budget_s",
    "seed",
    "warm_start",
}
# Settings of trials that name any file of this machine
_PATHS = {"data_dir", "start_from"}


def check_remote(raw: Mapping[str, Any]) -> None:
    """Raise UsageError for a spec over HTTP that names code, or what is for the server's user."""
    if fault := find_value_fault(raw):
        raise UsageError(f"the spec {fault}")
    refused = [
        key for key in raw if key in ExperimentSpec.model_fields.keys() - SETTABLE
    ]
    if raw.get("trainable") != ELSEWHERE:  # whose settings mean nothing here
        for section, values in list_trial_sections(raw):
            refused += [f"{section}.{name}" for name in sorted(_PATHS & values.keys())]
    if refused:
        raise UsageError(
            "\n".join(f"{key}: is the server's own; leave it out" for key in refused)
        )
    earlier = raw.get("warm_start")
    for name in earlier if isinstance(earlier, list) else [earlier]:
        if isinstance(name, str) and name != COMPLETE_STORAGE and not is_name(name):
            raise UsageError(
                str(Fault("warm_start", "must be a name in the server's storage", name))
            )
    if code := find_code(raw):
        keys = ", ".join(f"{each.key} ({each.path})" for each in code)
        raise UsageError(f"a spec that comes over HTTP must not name code: {keys}")
