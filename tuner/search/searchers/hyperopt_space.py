"""hyperopt's own search spaces, of `hp` calls, as ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tuner.errors import Fault
from tuner.settings_base import FaultsError
from tuner.space.domains import Choice, Domain, Normal, Numeric, Value

_TAKEN = (
    *("hp.uniform", "hp.quniform", "hp.loguniform", "hp.qloguniform", "hp.normal", "hp.qnormal"),
    *("hp.randint", "hp.uniformint", "hp.choice"),
)


def from_hyperopt(space: Any) -> Mapping[str, Value]:
    """`space` with each of hyperopt's expressions as our domain; all else is left as it is.

    Names are the keys of the space; hyperopt's labels only tell which expressions are one. Bounds
    that are no multiples of `q` are rounded inwards. Raises FaultsError naming all that has no equal here.
    """
    if _is_expression(space):
        if space.name != "dict" or space.pos_args:
            rule = "must be a mapping of names, as {'model': hp.choice(...)}"
            raise FaultsError(Fault("", rule, _call(space)))
        space = dict(space.named_args)
    faults: list[Fault] = []
    translated = {key: _value(value, str(key), faults) for key, value in space.items()}
    _labels(space.values(), faults)
    if faults:
        raise FaultsError(*faults)
    return translated


def _value(value: Any, path: str, faults: list[Fault]) -> Value:
    """A value of a space; what cannot be is added to `faults`."""
    if isinstance(value, Mapping):
        return {key: _value(inner, f"{path}.{key}", faults) for key, inner in value.items()}
    if isinstance(value, list | tuple) and any(map(_holds_expression, value)):
        faults.append(Fault(path, "has hyperparameters in a list: give each a name of its own"))
    if not _is_expression(value):
        return value
    if value.name == "literal":
        return value.obj
    if value.name == "dict" and not value.pos_args:
        return {key: _value(inner, f"{path}.{key}", faults) for key, inner in value.named_args}
    if value.name == "pos_args":
        return _value(_items(value), path, faults)
    if value.name == "switch":
        return _choice(value, path, faults)
    try:
        return _domain(value)
    except FaultsError as error:
        faults += [fault.under(path) for fault in error.faults]
        return None


def _choice(switch: Any, path: str, faults: list[Fault]) -> Value:
    chosen, *options = switch.pos_args
    drawn = chosen.arg["obj"] if chosen.name == "hyperopt_param" else chosen
    if drawn.name == "categorical":
        weights = [weight.obj for weight in drawn.arg["p"].pos_args]
        if not all(math.isclose(weight, weights[0]) for weight in weights):
            rule = "has options of unequal weight, which have no equal here: use hp.choice"
            faults.append(Fault(path, rule, weights))
    elif drawn.name != "randint":
        faults.append(_untaken(path, switch))
    values = []
    for option in options:
        value = _value(option, path, faults)
        if isinstance(value, Domain):
            rule = "has an option that is a hyperparameter: give it a name, as {'rate': ...}"
            faults.append(Fault(path, rule, _call(option)))
        values.append(value)
    return Choice(tuple(values)) if values else None


def _domain(expression: Any) -> Domain:
    """The domain of one hyperparameter. Raises FaultsError where we have none."""
    casts = []
    inner = expression
    while inner.name in ("int", "float") and len(inner.pos_args) == 1:
        casts.append(inner.name)
        (inner,) = inner.pos_args
    whole = casts[:1] == ["int"]
    if inner.name != "hyperopt_param":
        raise FaultsError(_untaken("", inner))
    drawn = inner.arg["obj"]
    build = _BUILDERS.get(drawn.name)
    # a whole number is one that is drawn as such: int() of others changes how they are distributed
    steps = drawn.name in ("randint", "quniform", "qloguniform")
    if build is None or (whole and not steps) or (not whole and drawn.name == "randint"):
        raise FaultsError(_untaken("", expression))
    try:
        given = {name: a for name, a in drawn.arg.items() if name not in ("rng", "size")}
        arguments = {name: float(a.obj) for name, a in given.items() if _is_expression(a)}
    except (AttributeError, TypeError, ValueError):
        raise FaultsError(Fault("", "must have numbers as its arguments", _call(drawn))) from None
    return build(whole, **arguments)


def _uniform(whole: bool, low: float, high: float, q: float | None = None) -> Domain:
    return _numeric(whole, low, high, q, log=False)


def _loguniform(whole: bool, low: float, high: float, q: float | None = None) -> Domain:
    """Its bounds are logarithms, of what is mostly a round number."""
    low, high = (float(f"{math.exp(bound):.12g}") for bound in (low, high))
    return _numeric(whole, low, high, q, log=True)


def _numeric(whole: bool, low: float, high: float, q: float | None, *, log: bool) -> Domain:
    if not whole:
        return Numeric(low, high, log=log, q=q)
    assert q is not None
    low, high = math.ceil(low), math.floor(high)
    if q == 1:
        return Numeric(low, high + 1, log=log, integer=True)  # ours is exclusive
    return Numeric(low, high, log=log, integer=True, q=int(q) if q == int(q) else q)


def _randint(whole: bool, low: float, high: float | None = None) -> Domain:
    low, high = (0.0, low) if high is None else (low, high)
    return Numeric(int(low), int(high), integer=True)


def _normal(whole: bool, mu: float, sigma: float, q: float | None = None) -> Domain:
    return Normal(mu, sigma, q)


_BUILDERS: dict[str, Callable[..., Domain]] = {
    **dict.fromkeys(("uniform", "quniform"), _uniform),
    **dict.fromkeys(("loguniform", "qloguniform"), _loguniform),
    **dict.fromkeys(("normal", "qnormal"), _normal),
    "randint": _randint,
}


def _labels(values: Iterable[Any], faults: list[Fault]) -> set[str]:
    """The labels of expressions that one config may have; each may be there once.

    Where one is there twice hyperopt has both be equal, which two of our domains are not.
    """
    found: set[str] = set()
    for value in values:
        here = _labels_of(value, faults)
        faults += [
            Fault(label, "is the label of more than one hyperparameter")
            for label in sorted(found & here)
        ]
        found |= here
    return found


def _labels_of(value: Any, faults: list[Fault]) -> set[str]:
    if isinstance(value, Mapping):
        return _labels(value.values(), faults)
    if not _is_expression(value):
        return set()
    if value.name == "hyperopt_param":
        return {str(value.arg["label"].obj)}
    if value.name == "switch":
        chosen, *options = value.pos_args
        branches: set[str] = set()  # of which a config has one
        return _labels_of(chosen, faults) | branches.union(
            *(_labels_of(option, faults) for option in options)
        )
    return _labels(_inputs(value), faults)


def _inputs(expression: Any) -> list[Any]:
    return [*expression.pos_args, *(inner for _, inner in expression.named_args)]


def _items(expression: Any) -> list[Any]:
    """What a list holds: plain values, and expressions that are not."""
    return [
        _items(item) if item.name == "pos_args" else item.obj if item.name == "literal" else item
        for item in expression.pos_args
    ]


def _untaken(path: str, expression: Any) -> Fault:
    return Fault(path, "has no equal here", _call(expression), _TAKEN)


def _call(expression: Any) -> str:
    """How the expression reads, in short."""
    inputs = _inputs(expression)
    if expression.name == "float" and len(inputs) == 1:
        return _call(inputs[0])
    if expression.name == "hyperopt_param":
        return f"hp.{inputs[1].name}({inputs[0].obj!r}, ...)"
    if expression.name == "switch":
        return f"hp.choice({inputs[0].pos_args[0].obj!r}, ...)"
    return f"{expression.name}({', '.join(map(_call, inputs[:1]))}, ...)"


def _holds_expression(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_expression, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_expression, value))
    return _is_expression(value)


def _is_expression(value: Any) -> bool:
    return type(value).__module__.startswith("hyperopt.pyll")
