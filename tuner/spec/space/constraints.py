"""Expressions over hyperparameters: `forbid: ["lr > 0.1 and batch_size < 32"]`.

Python's syntax tree is translated by a whitelist of nodes, never evaluated by Python: names (dotted
inside a branch), literals, arithmetic, comparisons, `in`, `and`, `or`, `not`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from tuner.errors import Fault, unknown
from tuner.spec.plain_values import value_at
from tuner.spec.settings import FaultsError
from tuner.spec.space.spaces import config_key

MAX_DRAWS = 10_000  # at random that may be forbidden before a search has nothing left to try

_MAX_LENGTH = 1000  # characters
_MAX_DEPTH = 100  # levels

Config = Mapping[str, Any]
Evaluate = Callable[[Config], Any]

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda a, b: float(a) ** float(b),  # a float overflows, an integer grows for ever
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


def expressions(raw: object) -> object:
    """A list of expressions, from a list or a single text."""
    return (raw,) if isinstance(raw, str) else raw


class Condition:
    """One expression; `names` are its dotted paths. Raises FaultsError for other text."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            rule = f"must be at most {_MAX_LENGTH} characters"
            raise FaultsError(Fault("", rule, f"{text[:50]}..."))
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            self._evaluate = _build(tree, text)
        except FaultsError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            rule = "cannot be read as an expression, such as lr > 0.1 and optimizer == 'sgd'"
            raise FaultsError(Fault("", rule, text)) from None
        self.names = tuple(dict.fromkeys(_names(tree)))

    def holds(self, values: Config) -> bool:
        """Whether it holds; False if a name is missing or the values cannot be compared."""
        try:
            return bool(self._evaluate(values))
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return False


class Constraints:
    """Expressions that must not hold for a config; incomparable or missing values forbid nothing.

    Raises FaultsError with every invalid expression.
    """

    def __init__(self, forbid: Sequence[str] = ()) -> None:
        self.forbid = tuple(forbid)
        self._conditions: list[Condition] = []
        faults: list[Fault] = []
        for index, text in enumerate(self.forbid):
            try:
                self._conditions.append(Condition(text))
            except FaultsError as error:
                faults += [fault.under(str(index)) for fault in error.faults]
        if faults:
            raise FaultsError(*faults)

    def __reduce__(self) -> tuple[type[Constraints], tuple[tuple[str, ...]]]:
        return type(self), (self.forbid,)

    def __bool__(self) -> bool:
        return bool(self.forbid)

    def allow(self, config: Config) -> bool:
        """Whether no expression holds for `config`."""
        return not any(condition.holds(config) for condition in self._conditions)

    def untried(
        self, configs: Iterable[dict[str, Any]], tried: Set[str]
    ) -> Iterator[dict[str, Any]]:
        """Those of `configs` that are allowed, and whose `config_key` is not among `tried`."""
        return (c for c in configs if config_key(c) not in tried and self.allow(c))

    def check_names(self, names: Sequence[str]) -> list[Fault]:
        """A fault for each name that is none of the hyperparameters `known`, by dotted path."""
        return [
            unknown(str(index), "hyperparameter", name, names)
            for index, condition in enumerate(self._conditions)
            for name in condition.names
            if name not in names
        ]


def _build(node: ast.expr, text: str, depth: int = 0) -> Evaluate:
    """The function of a config that `node` stands for. Raises FaultsError for foreign syntax."""
    if depth > _MAX_DEPTH:
        raise FaultsError(Fault("", f"is nested deeper than {_MAX_DEPTH} levels", text))

    def build(*nodes: ast.expr) -> list[Evaluate]:
        return [_build(inner, text, depth + 1) for inner in nodes]

    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None as value):
            return lambda config: value
        case ast.Name() | ast.Attribute() if (path := _path(node)) is not None:
            return lambda config: value_at(config, path)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            parts = build(*items)
            return lambda config: [part(config) for part in parts]
        case ast.BoolOp(op=ast.And(), values=items):
            parts = build(*items)
            return lambda config: all(part(config) for part in parts)
        case ast.BoolOp(values=items):
            parts = build(*items)
            return lambda config: any(_present(part, config) for part in parts)
        case ast.UnaryOp(op=op, operand=inner) if type(op) in _OPERATORS:
            sign, [part] = _OPERATORS[type(op)], build(inner)
            return lambda config: sign(part(config))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            calculate, [a, b] = _OPERATORS[type(op)], build(left, right)
            return lambda config: calculate(*_numbers(a(config), b(config)))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _OPERATORS for op in ops
        ):
            compare = [_OPERATORS[type(op)] for op in ops]
            parts = build(left, *others)
            return lambda config: _holds_along(compare, [part(config) for part in parts])
    allowed = "use names, literals, arithmetic, comparisons, in, and, or, not"
    raise FaultsError(Fault("", f"{ast.unparse(node)!r} is not allowed: {allowed}", text))


def _present(evaluate: Evaluate, config: Config) -> Any:
    """The value, or False where the config lacks a name: one side of an `or` may be absent."""
    try:
        return evaluate(config)
    except KeyError:
        return False


def _numbers(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, str | list) or isinstance(b, str | list):
        raise TypeError("arithmetic is for numbers")  # 'a' * 10**9 would take all memory
    return a, b


def _holds_along(compare: Sequence[Callable[[Any, Any], Any]], values: Sequence[Any]) -> bool:
    """Whether a chain such as `a < b <= c` holds."""
    return all(holds(a, b) for holds, (a, b) in zip(compare, pairwise(values), strict=True))


def _path(node: ast.AST) -> str | None:
    """The text of `a.b.c`, or None for any other node."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            outer = _path(inner)
            return None if outer is None else f"{outer}.{name}"
    return None


def _names(tree: ast.AST) -> Iterator[str]:
    """The dotted paths that `tree` reads."""
    path = _path(tree)
    if path is not None:
        yield path
        return
    for child in ast.iter_child_nodes(tree):
        yield from _names(child)
