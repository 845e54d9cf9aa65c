"""The keys of a spec, by section, as its settings models declare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tuner.errors import Fault, hint
from tuner.spec.declaration import default_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schedulers import SCHEDULERS
from tuner.spec.sections import (
    Checkpoints,
    Confirms,
    Objective,
    Refits,
    Resources,
    Stop,
    Timeouts,
)
from tuner.spec.settings import Settings
from tuner.spec.strategies import SEARCHERS

SECTIONS: dict[str, type[Settings]] = {
    "objective": Objective,
    "resources": Resources,
    "timeouts": Timeouts,
    "checkpoints": Checkpoints,
    "stop": Stop,
    "confirms": Confirms,
    "refits": Refits,
}
_MEANT = {"epochs": ["scheduler.max_t"]}  # `training.epochs` only shortens what that allows


def schema_of(model: type[Settings]) -> dict[str, Any]:
    """The JSON schema of one settings model, described by the first paragraph of its docstring.

    A field without a description has that of the same field in a base class.
    """
    schema: dict[str, Any] = model.model_json_schema()
    schema.pop("$defs", None)
    schema["description"] = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    for name, found in schema["properties"].items():
        found.pop("title", None)
        bases = (kind for kind in model.__mro__ if issubclass(kind, Settings))
        fields = (kind.model_fields[name] for kind in bases if name in kind.model_fields)
        found["description"] = next((f.description for f in fields if f.description), "")
    return schema


def strategies() -> dict[str, type[Settings]]:
    """The settings of each search strategy that ships, by its name."""
    return {name: SEARCHERS.settings(name) for name in SEARCHERS.names()}


def schedulers() -> dict[str, type[Settings]]:
    """The settings of each scheduler that ships, by its name."""
    return {name: SCHEDULERS.settings(name) for name in SCHEDULERS.names()}


def with_hints(faults: Iterable[Fault]) -> list[Fault]:
    """`faults`, where an unknown key names the keys of its name in other sections."""
    return [_with_hint(fault) if fault.stranger else fault for fault in faults]


def _with_hint(fault: Fault) -> Fault:
    name = fault.stranger
    namesakes = {path for path in _key_paths() if path.rpartition(".")[2] == name}
    paths = _MEANT.get(name) or sorted(namesakes)
    return replace(fault, rule=f"unknown key {name!r}{hint(paths)}") if paths else fault


def _key_paths() -> Iterator[str]:
    """The dotted path of every key; hyperparameters are in `search.space`, too."""
    yield from ExperimentSpec.model_fields
    sections = [*SECTIONS.items()]
    sections += [("search", model) for model in strategies().values()]
    sections += [("scheduler", model) for model in schedulers().values()]
    if settings := default_declaration().settings:
        sections += [("search.space", settings), ("training", settings)]
    for section, model in sections:
        yield from (f"{section}.{name}" for name in model.model_fields)
