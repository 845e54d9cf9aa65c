"""Where a key belongs that a spec has in the wrong place: `epochs=3` is `scheduler.max_t=3`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from tuner.classifier.settings import ClassifierSettings
from tuner.errors import Fault, nearest
from tuner.settings_base import Settings
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schedulers import SCHEDULERS
from tuner.spec.sections import Checkpoints, Objective, Resources, Stop, Timeouts
from tuner.spec.strategies import SEARCHERS

# What the same thing is called elsewhere
_ALSO = {
    **dict.fromkeys(("epochs", "max_epochs", "num_epochs", "n_epochs"), "scheduler.max_t"),
    **dict.fromkeys(("trials", "n_trials", "num_trials", "samples"), "num_samples"),
    **dict.fromkeys(("learning_rate", "learningrate"), "search.space.lr"),
    "params": "search.space",
    "algorithm": "search.strategy",
    "sampler": "search.strategy",
    "pruner": "scheduler.name",
    "direction": "objective.mode",
    "gpu": "resources.gpus",
    "cpu": "resources.cpus",
    "config": "search.space",
}
_NEVER_SEARCHED = {"model", "dataset", "data_dir"}  # at first, so that only one place is told


def placed(fault: Fault) -> Fault:
    """`fault`, and if it is of a key that belongs elsewhere, where that is."""
    if not fault.stranger:
        return fault
    elsewhere = [path for path in _places().get(fault.stranger, ()) if path != fault.key]
    if not elsewhere:
        return fault
    meant = " or ".join([*nearest(fault.stranger, fault.choices), *elsewhere])
    return replace(fault, rule=f"unknown key {fault.stranger!r}: did you mean {meant}?")


@cache
def _places() -> dict[str, tuple[str, ...]]:
    """The dotted path, or paths, of each key of a spec, by its last name."""
    places: dict[str, dict[str, None]] = {name: {path: None} for name, path in _ALSO.items()}
    for path in _paths():
        name = path.rpartition(".")[2]
        if name not in _ALSO:
            places.setdefault(name, {})[path] = None
    return {name: tuple(paths) for name, paths in places.items()}


def _paths() -> Iterator[str]:
    yield from ExperimentSpec.model_fields
    sections: list[tuple[str, type[Settings]]] = [
        ("objective", Objective),
        ("resources", Resources),
        ("timeouts", Timeouts),
        ("checkpoints", Checkpoints),
        ("stop", Stop),
    ]
    sections += [("search", SEARCHERS.settings(name)) for name in SEARCHERS.names()]
    sections += [("scheduler", SCHEDULERS.settings(name)) for name in SCHEDULERS.names()]
    for section, model in sections:
        yield from (f"{section}.{name}" for name in model.model_fields if name != "name")
    for name in ClassifierSettings.model_fields:
        if name not in _NEVER_SEARCHED:
            yield f"search.space.{name}"
        yield f"training.{name}"
