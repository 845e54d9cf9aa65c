"""A spec's plain values: read from YAML or JSON text, and changed before they are validated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any

import yaml

from tuner.errors import Fault, SpecError
from tuner.plain_values import DEEPEST, fault_of_values, too_deep, too_many
from tuner.spec.schedulers import DEFAULT, NONE

LONGEST = 1 << 20  # characters of a spec, or of the value of a KEY=VALUE
MOST = 20_000  # values in it: YAML is read slowly
LONGEST_NUMBER = 1000  # characters
_COMMAND_LINE = "the command line"


class _Loader(yaml.SafeLoader):
    """YAML of a sane size that says only what JSON can; floats may be written as 1e-3, too.

    YAML 1.1 reads that as text. Whatever is refused raises ValueError before it is built: a few
    lines can take minutes, and gigabytes.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = 0
        self._depth = -1

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._count += 1
        self._depth += 1
        if self._count > MOST:
            raise ValueError(f"it {too_many(MOST)}")
        if self._depth > DEEPEST:
            raise ValueError(f"it {too_deep()}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: dict[Any, yaml.Node]) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            found = f"{len(node.value):,} characters"
            raise ValueError(f"it has a number of {found}, at most {LONGEST_NUMBER:,} are read")
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise ValueError("it has a merge key, <<: write the keys themselves")
            if key.tag != _TEXT:
                raise ValueError(f"it has a key that is no text, {shown(key.value)}: quote it")


_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.add_implicit_resolver(
    _NUMBERS[1],
    # Without two repetitions side by side of what both can match: then a long number takes time
    re.compile(r"[-+]?((\d+(\.\d*)?|\.\d+)[eE][-+]?\d+|\d+\.\d*|\.\d+)$"),
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
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters, at most {LONGEST:,} are read")
    try:
        value = yaml.load(text, Loader=_Loader)
    except Exception as error:  # a strange tag lets out whatever PyYAML's converter stumbles over
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None
    if fault := fault_of_values(value, most=MOST):
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
    return with_values(raw, assigned(assignments))


def assigned(assignments: Iterable[str]) -> list[tuple[str, Any]]:
    """(dotted path, value) of each `dotted.path=value`. Raises SpecError with every fault."""
    values, faults = [], []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            faults.append(Fault(assignment, "must be KEY=VALUE, as in scheduler.max_t=30"))
            continue
        try:
            values.append((path, read_value(text)))
        except ValueError as error:
            faults.append(Fault(path, f"cannot be read: {error}", text))
    if faults:
        raise SpecError(faults, _COMMAND_LINE)
    return values


def with_values(raw: Mapping[str, Any], values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """`raw` with the value at each dotted path set.

    Raises SpecError for a path through something that holds no keys.
    """
    changed: dict[str, Any] = _copy(raw)
    if isinstance(name := changed.get("scheduler", {}), str | None):
        changed["scheduler"] = {"name": name or NONE}  # so that it keeps its name beside a max_t
    return assign(changed, values)


def _copy(value: Any) -> Any:
    """`value` with mappings of its own; what is no mapping, as a domain of Ray's, is as it is."""
    if not isinstance(value, Mapping):
        return value
    return {key: _copy(below) for key, below in value.items()}


def assign(changed: dict[str, Any], values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """`changed`, in which the value at each dotted path is set. Raises as `with_values` does."""
    faults = []
    for path, value in values:
        *parents, last = path.split(".")
        node = changed
        for parent in parents:
            if not isinstance(node.get(parent), dict):
                if isinstance(node.get(parent), str | int | float | list):
                    faults.append(Fault(path, f"{parent!r} holds no keys", node[parent]))
                    break
                node[parent] = {}
            node = node[parent]
        else:
            node[last] = value
    if faults:
        raise SpecError(faults, _COMMAND_LINE)
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


def with_scheduler(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`raw` under the scheduler `name`, with the same `max_t`; others' settings are dropped.

    Where none was named they are those of ASHA.
    """
    scheduler = raw.get("scheduler") or {}
    own = scheduler if isinstance(scheduler, Mapping) else {"name": scheduler}
    is_same = own.get("name", DEFAULT) == name
    kept = own if is_same else {"max_t": own["max_t"]} if "max_t" in own else {}
    return {**raw, "scheduler": {**kept, "name": name}}
