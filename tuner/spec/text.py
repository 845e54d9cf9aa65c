"""A spec's plain values: read from YAML or JSON text, and changed before they are validated.

YAML of limited size with the values of JSON; 1e-3 is a float, unlike in YAML 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as short  # and safe for deeply nested values
from typing import Any

import yaml

from tuner.errors import Fault, SpecError
from tuner.spec.plain_values import TOO_DEEP, describe_excess, find_value_fault
from tuner.spec.schedulers import DEFAULT, NONE
from tuner.spec.sections import infer_mode
from tuner.spec.strategies import SEARCHERS, SearchSettings, choose_strategy

MOST = 20_000  # values in a text: YAML is read slowly
LONGEST_NUMBER = 1000  # characters
LONGEST = 1 << 20  # characters of a spec, or of the value of a KEY=VALUE
COMMAND_LINE = "the command line"
_SPACE = "search.space."
_OF_SEVERAL = ("space", "forbid", "points_to_evaluate")  # of the settings of a search


def read_value(text: str) -> Any:
    """The YAML value of `text`. Raises ValueError if it is invalid, too large or not plain."""
    if len(text) > LONGEST:
        raise ValueError(
            f"it has {len(text):,} characters, at most {LONGEST:,} are read"
        )
    try:
        value = yaml.load(text, Loader=_Loader)
    except RecursionError:
        raise ValueError(f"it {TOO_DEEP}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: {error.problem}") from None
    except Exception as error:  # a tag's converter may raise any error
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None
    if fault := find_value_fault(value, most=MOST):
        raise ValueError(f"it {fault}")
    return value


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._count += 1
        if self._count > MOST:
            raise ValueError(f"it {describe_excess(MOST)}")
        return super().compose_node(parent, index)

    def compose_scalar_node(self, anchor: dict[Any, yaml.Node]) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if _SURROGATE.search(node.value):
            node.value = _join_surrogates(node.value)
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            length = f"{len(node.value):,} characters"
            raise ValueError(
                f"it has a number of {length}, at most {LONGEST_NUMBER:,} are read"
            )
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise ValueError("it has a merge key, <<: write the keys themselves")
            if key.tag != _TEXT:
                raise ValueError(
                    f"it has a key that is no text, {short(key.value)}: quote it"
                )
            line = key.start_mark.line + 1
            if first := lines.get(key.value):
                where = f"line {line}" if first == line else f"lines {first} and {line}"
                raise ValueError(
                    f"it has the key {short(key.value)} twice, in {where}: keep one"
                )
            lines[key.value] = line


def _join_surrogates(text: str) -> str:
    """`text` with surrogate pairs as single characters. Raises ValueError for half a pair."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ValueError(
            "it has half of a surrogate pair, which is no character"
        ) from None


_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.add_implicit_resolver(
    _NUMBERS[1],
    # Without two repetitions side by side of what both can match: then a long number takes time
    re.compile(r"[-+]?((\d+(\.\d*)?|\.\d+)[eE][-+]?\d+|\d+\.\d*|\.\d+)$"),
    list("-+0123456789."),
)
_Loader.yaml_implicit_resolvers = {  # a date is text, as in JSON
    first: [
        (tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")
    ]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_mapping(text: str, source: str = "the spec") -> dict[str, Any]:
    """The mapping that YAML or JSON `text` holds. Raises SpecError where it does not parse."""
    try:
        raw = read_value(text)
    except ValueError as error:
        raise SpecError(
            [Fault("", f"cannot be read as YAML or JSON: {error}")], source
        ) from None
    if raw is None:
        raise SpecError(
            [Fault("", "is empty: a spec needs at least search.space")], source
        )
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise SpecError(
            [Fault("", "must be a mapping of names to values", raw)], source
        )
    return raw


def find_lines(text: str) -> dict[str, int]:
    """dotted path -> the line, from 1, of its key in a YAML text that `read_value` reads."""
    lines: dict[str, int] = {}

    def collect(node: yaml.Node | None, path: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                below = f"{path}.{key.value}" if path else str(key.value)
                lines[below] = key.start_mark.line + 1
                collect(value, below)

    collect(yaml.compose(text, Loader=_Loader), "")
    return lines


def apply_assignments(
    raw: Mapping[str, Any], assignments: Iterable[str]
) -> dict[str, Any]:
    """`raw` with each `dotted.path=value` set, as YAML; a later one wins.

    Raises SpecError for an assignment without `=`, and as `assign_values`.
    """
    return assign_values(raw, parse_assignments(assignments))


def assign_values(
    raw: Mapping[str, Any], values: Sequence[tuple[str, Any]]
) -> dict[str, Any]:
    """`raw` with the value at each dotted path set; a later one wins.

    A new strategy or scheduler keeps shared settings only; a new metric resets the mode;
    `objectives` replace the objective. Raises SpecError for a path through a plain value.
    """
    by_path = dict(values)
    if isinstance(name := by_path.get("search.strategy"), str):
        raw = replace_strategy(raw, name)
    if isinstance(name := by_path.get("scheduler.name"), str):
        raw = replace_scheduler(raw, name)
    if "objectives" in by_path:
        raw = {name: value for name, value in raw.items() if name != "objective"}
    changed = replace_values(_drop_searched_constants(raw, by_path), values)
    objective = changed.get("objective")
    sets_metric_alone = (
        "objective.metric" in by_path and "objective.mode" not in by_path
    )
    if (
        sets_metric_alone
        and isinstance(objective, dict)
        and infer_mode(str(objective["metric"]))
    ):
        objective.pop("mode", None)
    return changed


def _drop_searched_constants(
    raw: Mapping[str, Any], by_path: Mapping[str, Any]
) -> Mapping[str, Any]:
    """`raw` without the constants that assignments search: search.space.NAME for training.NAME."""
    constants = raw.get("training")
    if not isinstance(constants, Mapping):
        return raw
    searched = {
        path.removeprefix(_SPACE) for path in by_path if path.startswith(_SPACE)
    }
    return {
        **raw,
        "training": {n: v for n, v in constants.items() if n not in searched},
    }


def parse_assignments(assignments: Iterable[str]) -> list[tuple[str, Any]]:
    """(dotted path, value) of each `dotted.path=value`. Raises SpecError with every fault."""
    values = []
    faults = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            faults.append(
                Fault(assignment, "must be KEY=VALUE, as in scheduler.max_t=30")
            )
            continue
        try:
            # With ": " in it, YAML's is a mapping
            is_call = re.fullmatch(r"[\w.]+\(.*\)", text)
            values.append((path, text if is_call else read_value(text)))
        except ValueError as error:
            faults.append(Fault(path, f"cannot be read: {error}", text))
    if faults:
        raise SpecError(faults, COMMAND_LINE)
    return values


def replace_values(
    raw: Mapping[str, Any], values: Iterable[tuple[str, Any]]
) -> dict[str, Any]:
    """A copy of `raw` with values set by dotted path. Raises SpecError as `assign_values`."""
    changed: dict[str, Any] = _copy(raw)
    if isinstance(name := changed.get("scheduler", {}), str | None):
        # So that it keeps its name beside a max_t
        changed["scheduler"] = {"name": name or NONE}
    return set_values(changed, values)


def _copy(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _copy(below) for key, below in value.items()}


def set_values(
    changed: dict[str, Any], values: Iterable[tuple[str, Any]]
) -> dict[str, Any]:
    """Set the value at each dotted path in `changed`. Raises as `replace_values` does."""
    faults = []
    for path, value in values:
        *parents, last = path.split(".")
        node: Any = changed
        for parent in parents:
            if node.get(parent) is None:
                node[parent] = {}
            node = node[parent]
            if not isinstance(node, dict):
                faults.append(Fault(path, f"{parent!r} holds no keys", node))
                break
        else:
            node[last] = value
    if faults:
        raise SpecError(faults, COMMAND_LINE)
    return changed


def replace_strategy(raw: Mapping[str, Any], strategy: str) -> dict[str, Any]:
    """`raw` searched by `strategy`, with shared settings; a grid drops `num_samples`."""
    search = raw.get("search") or {}
    if not isinstance(search, Mapping) or choose_strategy(raw) == strategy:
        return dict(raw)
    shipped = strategy in SEARCHERS.list_names()
    fields = (
        SEARCHERS.load_settings(strategy) if shipped else SearchSettings
    ).model_fields.keys()
    kept = {
        name: search[name] for name in _OF_SEVERAL if name in search and name in fields
    }
    changed = {**raw, "search": {"space": {}, **kept, "strategy": strategy}}
    if strategy == "grid":
        changed.pop("num_samples", None)
    return changed


def replace_scheduler(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`raw` under the scheduler `name`; another scheduler (default ASHA) leaves `max_t`."""
    scheduler = raw.get("scheduler") or {}
    before = scheduler if isinstance(scheduler, Mapping) else {"name": scheduler}
    is_same = before.get("name", DEFAULT) == name
    kept = {key: value for key, value in before.items() if is_same or key == "max_t"}
    return {**raw, "scheduler": {**kept, "name": name}}
