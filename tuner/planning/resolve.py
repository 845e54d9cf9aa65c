"""From what the user asks for to the spec that runs: the experiment, then what is overridden."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.planning.lookup import load_experiment
from tuner.planning.validation import Machine, validate
from tuner.record.folder import already_there, free_name
from tuner.record.remote.mirror import is_taken
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.text import override, with_strategy


def resolve(
    experiment: str,
    assignments: Sequence[str] = (),
    *,
    strategy: str | None = None,
    machine: Machine | None = None,
) -> tuple[ExperimentSpec, str]:
    """The validated spec of EXPERIMENT, and where it comes from.

    assignments: KEY=VALUE, a later one wins. strategy: another one to search its space by. machine:
    as `validate` takes it. A name that is not assigned is the experiment's, or the next free one.
    Raises as `load_experiment`, `override` and `validate` do, and UsageError where the name that
    is assigned is there already.
    """
    found = load_experiment(experiment)
    raw = with_strategy(found.raw, strategy) if strategy else found.raw
    raw = override({"name": found.name, **raw}, assignments)
    name, storage = raw["name"], raw.get("storage")
    named = any(assignment.startswith("name=") for assignment in assignments)
    if not named and isinstance(name, str) and isinstance(storage, str | None):
        raw["name"] = free_name(name, storage)
    spec = validate(raw, source=found.source, machine=machine)
    if is_taken(spec.folder):  # told before anything starts
        raise already_there(spec.folder)
    return spec, found.source
