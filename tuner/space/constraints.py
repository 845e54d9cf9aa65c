"""Configs that a search must not try, as expressions: `forbid: ["lr > 0.1 and batch_size < 32"]`.

An expression is parsed to Python's syntax tree, checked against a whitelist, and interpreted; it
is never compiled or evaluated. It may use names of hyperparameters (`optimizer.momentum` inside a
branch), literals, arithmetic, comparisons, `in`, `and`, `or`, `not`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tuner.errors import Fault, unknown
from tuner.settings_base import FaultsError

_LONGEST = 1000  # characters
_DEEPEST = 100  # levels

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda a, b: float(a) ** float(b),  # floats overflow at once, integers take for ever
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


class _AbsentError(Exception):
    """The config has no such hyperparameter: it lies in another branch."""


class Constraints:
    """Says which configs are allowed; each of `forbid` is one expression that must not hold.

    An expression over a hyperparameter that a config does not have (it lies in a branch that was
    not chosen), or over values that cannot be compared, forbids nothing. Raises FaultsError with every
    expression that cannot be read.
    """

    def __init__(self, forbid: Sequence[str] = ()) -> None:
        self.forbid = tuple(forbid)
        faults: list[Fault] = []
        self._trees: list[ast.expr] = []
        for index, text in enumerate(self.forbid):
            try:
                self._trees.append(_parse(text))
            except FaultsError as error:
                faults += [fault.under(str(index)) for fault in error.faults]
        if faults:
            raise FaultsError(*faults)

    def __reduce__(self) -> tuple[type[Constraints], tuple[tuple[str, ...]]]:
        return type(self), (self.forbid,)

    def __bool__(self) -> bool:
        return bool(self.forbid)

    def allow(self, config: Mapping[str, Any]) -> bool:
        """Whether no expression holds for `config`."""
        return not any(_holds(tree, config) for tree in self._trees)

    def check_names(self, known: Sequence[str]) -> list[Fault]:
        """A fault for each name that is none of the hyperparameters `known`, by dotted path."""
        return [
            unknown(str(index), "hyperparameter", name, known)
            for index, tree in enumerate(self._trees)
            for name in _names(tree)
            if name not in known
        ]


def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise FaultsError(Fault("", f"must be at most {_LONGEST} characters", f"{text[:50]}..."))
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        _check(tree, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, FaultsError):
            raise
        raise FaultsError(Fault("", "is not an expression that can be read", text)) from None
    return tree


def _check(node: ast.expr, text: str, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise FaultsError(Fault("", f"is nested deeper than {_DEEPEST} levels", text))
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None) | ast.Name():
            return
        case ast.Attribute() if _path(node) is not None:
            return
        case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            children = list(parts)
        case ast.UnaryOp(op=op, operand=part) if type(op) in _SIGNS:
            children = [part]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            children = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARISONS for op in ops
        ):
            children = [left, *others]
        case _:
            rule = (
                f"{ast.unparse(node)!r} is not allowed: use names, literals, arithmetic, "
                "comparisons, in, and, or, not"
            )
            raise FaultsError(Fault("", rule, text))
    for child in children:
        _check(child, text, depth + 1)


def _holds(tree: ast.expr, config: Mapping[str, Any]) -> bool:
    try:
        return bool(_value(tree, config))
    except (_AbsentError, TypeError, ValueError, ArithmeticError):
        return False


def _value(node: ast.expr, config: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return _look_up(_path(node) or [], config)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, config) for item in items]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, config) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_present(part, config) for part in parts)
        case ast.UnaryOp(op=op, operand=part):
            return _SIGNS[type(op)](_value(part, config))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, config), _value(right, config)
            if isinstance(a, str | list) or isinstance(b, str | list):
                raise TypeError("arithmetic is for numbers")  # 'a' * 10**9 takes all memory
            return _ARITHMETIC[type(op)](a, b)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(part, config) for part in (left, *others)]
            return all(
                _COMPARISONS[type(op)](a, b)
                for op, a, b in zip(ops, values, values[1:], strict=False)
            )
    raise AssertionError(f"unchecked syntax: {ast.dump(node)}")


def _present(node: ast.expr, config: Mapping[str, Any]) -> Any:
    """The value, or False where the config lacks a name: one side of an `or` may be absent."""
    try:
        return _value(node, config)
    except _AbsentError:
        return False


def _look_up(path: Sequence[str], config: Mapping[str, Any]) -> Any:
    value: Any = config
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            raise _AbsentError
        value = value[name]
    return value


def _path(node: ast.expr) -> list[str] | None:
    """The names of `a.b.c`; None where it is anything else."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=inner, attr=name):
            outer = _path(inner)
            return None if outer is None else [*outer, name]
    return None


def _names(tree: ast.expr) -> Iterator[str]:
    """The dotted paths that `tree` reads."""
    path = _path(tree)
    if path is not None:
        yield ".".join(path)
        return
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            yield from _names(child)
