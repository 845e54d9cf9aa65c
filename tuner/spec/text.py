"""A spec's plain values: read from YAML or JSON text, and changed before they are validated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tuner.errors import Fault, SpecError
from tuner.plain_values import fault_of_values


class _Loader(yaml.SafeLoader):
    """YAML whose floats may be written without a dot, as in 1e-3 (YAML 1.1 reads that as text)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)|[-+]?(\d+\.\d*|\.\d+)", re.X),
    list("-+0123456789."),
)
_Loader.yaml_implicit_resolvers = {  # a date is text, as in JSON
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_value(text: str) -> Any:
    """What `text` means as a YAML value: 1e-3 a number, `true` a bool, `[1, 2]` a list.

    Raises ValueError where it is not YAML, or holds more than plain values of a sane size.
    """
    try:
        value = yaml.load(text, Loader=_Loader)
    except Exception as error:  # a strange tag lets out whatever PyYAML's converter stumbles over
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None
    if fault := fault_of_values(value):
        raise ValueError(f"it {fault}")
    return value


def read_mapping(text: str, source: str = "the spec") -> dict[str, Any]:
    """The mapping that YAML or JSON `text` holds. Raises SpecError where it does not parse."""
    try:
        raw = read_value(text)
    except ValueError as error:
        raise SpecError([Fault("", f"is neither YAML nor JSON: {error}")], source) from None
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise SpecError([Fault("", "must be a mapping of names to values", raw)], source)
    return raw


def override(raw: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`raw` with each `dotted.path=value` set; values are read as YAML.

    `search.space.lr=loguniform(1e-5, 1e-2)` sets a domain. Raises SpecError for an assignment
    without `=`, or a path through something that holds no keys.
    """
    changed: dict[str, Any] = json.loads(json.dumps(raw))
    faults = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *parents, last = path.strip().split(".")
        if not equals or not all([*parents, last]):
            faults.append(Fault(assignment, "must be KEY=VALUE, as in scheduler.max_t=30"))
            continue
        node = changed
        for parent in parents:
            if not isinstance(node.get(parent), dict):
                if isinstance(node.get(parent), str | int | float | list):
                    faults.append(Fault(path, f"{parent!r} holds no keys", node[parent]))
                    break
                node[parent] = {}
            node = node[parent]
        else:
            try:
                node[last] = read_value(text)
            except ValueError as error:
                faults.append(Fault(path, f"cannot be read: {error}", text))
    if faults:
        raise SpecError(faults, "the command line")
    return changed


def with_strategy(raw: Mapping[str, Any], strategy: str) -> dict[str, Any]:
    """`raw` searched by `strategy` over the same space; other strategies' settings are dropped.

    A grid runs all of its cells, so a number of samples meant for another strategy goes too.
    """
    search = raw.get("search") or {}
    if not isinstance(search, Mapping) or search.get("strategy", "random") == strategy:
        return dict(raw)
    changed = {**raw, "search": {"strategy": strategy, "space": search.get("space", {})}}
    if strategy == "grid":
        changed.pop("num_samples", None)
    return changed
