"""Expressions over hyperparameters: `forbid: ["lr > 0.1 and batch_size < 32"]`.

Python's syntax tree is translated by a whitelist of nodes, never evaluated by Python: names (dotted
inside a branch), literals, arithmetic, comparisons, `in`, `and`, `or`, `not`. A name that Python
cannot read as one stands in `value('val/accuracy')`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from keyword import iskeyword
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from tuner.errors import Fault, build_unknown_fault
from tuner.spec.plain_values import resolve_value
from tuner.spec.settings import FaultsError, bad_value
from tuner.spec.space.spaces import compute_config_key

# At random that may be forbidden before a search has nothing left to try
MAX_DRAWS = 10_000

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
    # A float overflows, an integer grows for ever
    ast.Pow: lambda a, b: float(a) ** float(b),
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


class Condition:
    """One expression; `names` are its dotted paths. Raises FaultsError for other text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.names: list[str] = []
        if len(text) > _MAX_LENGTH:
            raise bad_value(f"must be at most {_MAX_LENGTH} characters", text)
        try:
            self._evaluate = self._build(ast.parse(text.strip(), mode="eval").body)
        except FaultsError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            rule = "cannot be read as an expression, such as lr > 0.1 and optimizer == 'sgd'"
            raise bad_value(rule, text) from None

    def is_true(self, values: Config) -> bool:
        """Whether it holds; False if a name is missing or the values cannot be compared."""
        try:
            return bool(self._evaluate(values))
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return False

    def _build(self, node: ast.expr, depth: int = 0) -> Evaluate:
        """The function of a config that `node` stands for. Raises FaultsError for other syntax."""
        if depth > _MAX_DEPTH:
            raise bad_value(f"is nested deeper than {_MAX_DEPTH} levels", self._text)

        def build(*nodes: ast.expr) -> list[Evaluate]:
            return [self._build(inner, depth + 1) for inner in nodes]

        match node:
            case ast.Constant(value=str() | int() | float() | bool() | None as value):
                return lambda config: value
            case ast.Name() | ast.Attribute() | ast.Call() if (
                path := _extract_path(node)
            ) is not None:
                if path not in self.names:
                    self.names.append(path)
                return lambda config: resolve_value(config, path)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                parts = build(*items)
                return lambda config: [part(config) for part in parts]
            case ast.BoolOp(op=ast.And(), values=items):
                parts = build(*items)
                return lambda config: all(part(config) for part in parts)
            case ast.BoolOp(values=items):
                parts = build(*items)
                return lambda config: any(
                    _evaluate_optional(part, config) for part in parts
                )
            case ast.UnaryOp(op=op, operand=inner) if type(op) in _OPERATORS:
                sign = _OPERATORS[type(op)]
                [part] = build(inner)
                return lambda config: sign(part(config))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                calculate = _OPERATORS[type(op)]
                [a, b] = build(left, right)
                return lambda config: calculate(*_check_numbers(a(config), b(config)))
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _OPERATORS for op in ops
            ):
                compare = [_OPERATORS[type(op)] for op in ops]
                parts = build(left, *others)
                return lambda config: all(
                    holds(a, b)
                    for holds, (a, b) in zip(
                        compare, pairwise([part(config) for part in parts]), strict=True
                    )
                )
        allowed = "use names, value('NAME'), literals, arithmetic, comparisons, in, and, or, not"
        raise bad_value(f"{ast.unparse(node)!r} is not allowed: {allowed}", self._text)


@lru_cache
def parse_condition(text: str) -> Condition:
    """The Condition of `text`, parsed once. Raises FaultsError."""
    return Condition(text)


Expression = Annotated[str, AfterValidator(lambda text: parse_condition(text) and text)]
as_list = BeforeValidator(lambda raw: (raw,) if isinstance(raw, str) else raw)


def is_allowed(forbid: Sequence[str], config: Config) -> bool:
    """Whether none of the expressions holds for `config`. Raises FaultsError for invalid ones."""
    return not any(parse_condition(text).is_true(config) for text in forbid)


def filter_untried(
    configs: Iterable[dict[str, Any]], tried: Set[str], forbid: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Those of `configs` that are allowed, and whose `compute_config_key` is not among `tried`.

    Raises FaultsError for an invalid expression, as `check_names` does.
    """
    return (
        c
        for c in configs
        if compute_config_key(c) not in tried and is_allowed(forbid, c)
    )


def format_name(name: str) -> str:
    """How an expression refers to a name, or to a dotted path.

    >>> format_name("opt.lr"), format_name("val/accuracy")
    ('opt.lr', "value('val/accuracy')")
    """
    parts = name.split(".")
    is_plain = all(part.isidentifier() and not iskeyword(part) for part in parts)
    return name if is_plain else f"value({name!r})"


def check_names(forbid: Sequence[str], names: Sequence[str]) -> list[Fault]:
    """A fault for each name in an expression that is none of `names`, by dotted path."""
    return [
        build_unknown_fault(str(index), "hyperparameter", name, names)
        for index, text in enumerate(forbid)
        for name in parse_condition(text).names
        if name not in names
    ]


def _evaluate_optional(evaluate: Evaluate, config: Config) -> Any:
    """The value, or False where the config lacks a name: one side of an `or` may be absent."""
    try:
        return evaluate(config)
    except KeyError:
        return False


def _check_numbers(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, str | list) or isinstance(b, str | list):
        # 'a' * 10**9 would take all memory
        raise TypeError("arithmetic is for numbers")
    return a, b


def _extract_path(node: ast.AST) -> str | None:
    """The text of `a.b.c`, or of `value('a/b')`; None for any other node."""
    match node:
        case ast.Call(
            func=ast.Name(id="value"),
            args=[ast.Constant(value=str() as name)],
            keywords=[],
        ):
            return name
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            outer = _extract_path(inner)
            return None if outer is None else f"{outer}.{name}"
    return None
