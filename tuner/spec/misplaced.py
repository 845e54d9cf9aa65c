"""Where a key belongs that a spec has in the wrong place: `epochs=3` is `scheduler.max_t=3`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tuner.errors import Fault, hint, nearest
from tuner.spec.declaration import default_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schema import SECTIONS, schedulers, strategies

# What the same thing is called elsewhere
_ALSO = {
    **dict.fromkeys(("epochs", "max_epochs", "num_epochs", "n_epochs"), "scheduler.max_t"),
    **dict.fromkeys(("trials", "n_trials", "num_trials", "samples"), "num_samples"),
    **dict.fromkeys(("learning_rate", "learningrate"), "search.space.lr"),
    **dict.fromkeys(("params", "parameters"), "search.space"),
    "algorithm": "search.strategy",
    "sampler": "search.strategy",
    "pruner": "scheduler.name",
    "direction": "objective.mode",
    "gpu": "resources.gpus",
    "cpu": "resources.cpus",
    "config": "search.space",
}
_NEVER_SEARCHED = {"model", "dataset", "data_dir"}  # at first, so that only one place is told
_LISTED = 12  # keys of a section that a fault lists


def placed(faults: Iterable[Fault], spec: Mapping[str, Any]) -> list[Fault]:
    """`faults`, each of an unknown key with the nearest keys and with where such a key belongs.

    spec: what was checked. What only follows from a mistyped key is left out: that the right one is
    missing, or what a section lacks that `spec` does not have.
    """
    faults = list(faults)
    meant = {f"{path}." for fault in faults if fault.stranger for path in _meant(fault)}
    sections = tuple(path for path in meant if path.partition(".")[0] not in spec)

    def follows(fault: Fault) -> bool:
        is_missing = fault.rule.startswith("is required")
        return fault.key.startswith(sections) or (
            is_missing and any(path.startswith(f"{fault.key}.") for path in meant)
        )

    return [_placed(fault) for fault in faults if not follows(fault)]


def _placed(fault: Fault) -> Fault:
    if not fault.stranger:
        return fault
    rule = f"unknown key {fault.stranger!r}{hint(_meant(fault))}"
    if len(fault.choices) <= _LISTED:
        return replace(fault, rule=rule)
    section = " training" if "." in fault.key else ""
    return replace(fault, rule=f"{rule}; `tuner spec{section}` lists all", choices=())


def _meant(fault: Fault) -> list[str]:
    """The dotted paths of the keys that an unknown one may have been meant for."""
    section = fault.key.removesuffix(fault.stranger)
    elsewhere = [
        path
        for path in _places().get(fault.stranger.lower().replace("-", "_"), ())
        if path != fault.key
    ]
    near = nearest(fault.stranger, fault.choices, 1 if elsewhere else 3)
    return list(dict.fromkeys([*(section + name for name in near), *elsewhere]))


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
    sections = [(name, model) for name, model in SECTIONS.items() if name != "confirms"]
    sections += [("search", model) for model in strategies().values()]
    sections += [("scheduler", model) for model in schedulers().values()]
    for section, model in sections:
        yield from (f"{section}.{name}" for name in model.model_fields if name != "name")
    settings = default_declaration().settings
    for name in settings.model_fields if settings else ():
        if name not in _NEVER_SEARCHED:
            yield f"search.space.{name}"
        yield f"training.{name}"
