"""YAML of limited size with the values of JSON; 1e-3 is a float, unlike in YAML 1.1."""

from __future__ import annotations

import re
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any

import yaml

from tuner.spec.plain_values import DEEPEST, too_deep, too_many

MOST = 20_000  # values in a text: YAML is read slowly
LONGEST_NUMBER = 1000  # characters


def load(text: str) -> Any:
    """The value of `text`. Raises ValueError if it is too large or a syntax error, and PyYAML's
    errors.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: {error.problem}") from None


class _Loader(yaml.SafeLoader):
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
        if _SURROGATE.search(node.value):
            node.value = _joined(node.value)
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            length = f"{len(node.value):,} characters"
            raise ValueError(f"it has a number of {length}, at most {LONGEST_NUMBER:,} are read")
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise ValueError("it has a merge key, <<: write the keys themselves")
            if key.tag != _TEXT:
                raise ValueError(f"it has a key that is no text, {shown(key.value)}: quote it")
            line = key.start_mark.line + 1
            if first := lines.get(key.value):
                where = f"line {line}" if first == line else f"lines {first} and {line}"
                raise ValueError(f"it has the key {shown(key.value)} twice, in {where}: keep one")
            lines[key.value] = line


def _joined(text: str) -> str:
    """`text` with surrogate pairs as single characters. Raises ValueError for half a pair."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ValueError("it has half of a surrogate pair, which is no character") from None


_SURROGATE = re.compile("[\ud800-\udfff]")
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
