"""hyperopt's own search spaces, of `hp` calls, translated to ours.

An expression of hyperopt is a graph of `Apply` nodes. They are read by their names and arguments,
so hyperopt itself is not imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tuner.errors import Fault
from tuner.settings import FaultsError
from tuner.spec.space.domains import Choice, Domain, Normal, Numeric, Value

_DRAWS = ("uniform", "quniform", "loguniform", "qloguniform", "normal", "qnormal", "randint")
_SUPPORTED = (
    *("hp.uniform", "hp.quniform", "hp.loguniform", "hp.qloguniform", "hp.normal", "hp.qnormal"),
    *("hp.randint", "hp.uniformint", "hp.choice"),
)


def holds_hyperopt(value: Any) -> bool:
    """Whether `value` is an expression of hyperopt, or a list or mapping that holds one."""
    if isinstance(value, Mapping):
        return any(map(holds_hyperopt, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_hyperopt, value))
    return _is_expression(value)


def from_hyperopt(space: Any) -> Mapping[str, Value]:
    """`space` with each of hyperopt's expressions as our domain; all else is left as it is.

    Names are the keys of the space, not hyperopt's labels. Raises FaultsError with everything that
    has no equal here.
    """
    if _is_expression(space):
        if space.name != "dict" or space.pos_args:
            rule = "must be a mapping of names, as {'model': hp.choice(...)}"
            raise FaultsError(Fault("", rule, _shown(space)))
        space = dict(space.named_args)
    faults: list[Fault] = []
    translated = {key: _value(value, str(key), faults) for key, value in space.items()}
    _labels(space.values(), faults)
    if faults:
        raise FaultsError(*faults)
    return translated


def _value(value: Any, path: str, faults: list[Fault]) -> Value:
    """The translation of a value; adds to `faults` if there is none."""
    if isinstance(value, Mapping):
        return {key: _value(inner, f"{path}.{key}", faults) for key, inner in value.items()}
    if isinstance(value, list | tuple) and holds_hyperopt(value):
        faults.append(Fault(path, "has hyperparameters in a list: give each a name of its own"))
    if not _is_expression(value):
        return value
    match value.name:
        case "literal":
            return value.obj
        case "dict" if not value.pos_args:
            return {key: _value(inner, f"{path}.{key}", faults) for key, inner in value.named_args}
        case "pos_args":
            return _value(_items(value), path, faults)
        case "switch":
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
        faults.append(_unsupported(path, switch))
    values = []
    for option in options:
        value = _value(option, path, faults)
        if isinstance(value, Domain):
            rule = "has an option that is a hyperparameter: give it a name, as {'rate': ...}"
            faults.append(Fault(path, rule, _shown(option)))
        values.append(value)
    return Choice(tuple(values)) if values else None


def _domain(expression: Any) -> Domain:
    """The domain of one hyperparameter. Raises FaultsError if it has no equal."""
    casts = []
    inner = expression
    while inner.name in ("int", "float") and len(inner.pos_args) == 1:
        casts.append(inner.name)
        (inner,) = inner.pos_args
    whole = casts[:1] == ["int"]
    if inner.name != "hyperopt_param":
        raise FaultsError(_unsupported("", inner))
    drawn = inner.arg["obj"]
    # int() of a domain without steps would change its distribution, so it is refused
    has_steps = drawn.name in ("randint", "quniform", "qloguniform")
    if drawn.name not in _DRAWS or (not has_steps if whole else drawn.name == "randint"):
        raise FaultsError(_unsupported("", expression))
    try:
        inputs = {name: arg for name, arg in drawn.arg.items() if name not in ("rng", "size")}
        arguments = {name: float(arg.obj) for name, arg in inputs.items() if _is_expression(arg)}
    except (AttributeError, TypeError, ValueError):
        raise FaultsError(Fault("", "must have numbers as its arguments", _shown(drawn))) from None
    return _built(drawn.name, whole, **arguments)


def _built(
    name: str,
    whole: bool,
    low: float = 0,
    high: float | None = None,
    q: float | None = None,
    *,
    mu: float = 0,
    sigma: float = 1,
) -> Domain:
    if name in ("normal", "qnormal"):
        return Normal(mu, sigma, q)
    if high is None:  # hp.randint of one bound
        low, high = 0, low
    if name == "randint":
        return Numeric(int(low), int(high), integer=True)
    log = "log" in name
    if log:  # then the bounds are logarithms, mostly of round numbers
        low, high = (float(f"{math.exp(bound):.12g}") for bound in (low, high))
    if not whole:
        return Numeric(low, high, log=log, q=q)
    assert q is not None
    low, high = math.ceil(low), math.floor(high)
    if q == 1:
        return Numeric(low, high + 1, log=log, integer=True)  # our upper bound is exclusive
    return Numeric(low, high, log=log, integer=True, q=int(q) if q == int(q) else q)


def _labels(values: Iterable[Any], faults: list[Fault]) -> set[str]:
    """The labels that one config may hold; each may occur once.

    hyperopt gives expressions of one label the same value, unlike two domains here.
    """
    labels: set[str] = set()
    for value in values:
        here = _labels_of(value, faults)
        faults += [
            Fault(label, "is the label of more than one hyperparameter")
            for label in sorted(labels & here)
        ]
        labels |= here
    return labels


def _labels_of(value: Any, faults: list[Fault]) -> set[str]:
    if isinstance(value, Mapping):
        return _labels(value.values(), faults)
    if not _is_expression(value):
        return set()
    if value.name == "hyperopt_param":
        return {str(value.arg["label"].obj)}
    if value.name == "switch":  # a config has one of its branches, so these may share labels
        chosen, *options = value.pos_args
        return _labels_of(chosen, faults).union(*(_labels_of(o, faults) for o in options))
    return _labels(_inputs(value), faults)


def _inputs(expression: Any) -> list[Any]:
    return [*expression.pos_args, *(inner for _, inner in expression.named_args)]


def _items(expression: Any) -> list[Any]:
    """The items of a list: plain values of literals, else expressions."""
    return [
        _items(item) if item.name == "pos_args" else item.obj if item.name == "literal" else item
        for item in expression.pos_args
    ]


def _unsupported(path: str, expression: Any) -> Fault:
    return Fault(path, "has no equal here", _shown(expression), _SUPPORTED)


def _shown(expression: Any) -> str:
    """The expression as it may have been written, in short."""
    inputs = _inputs(expression)
    if expression.name == "float" and len(inputs) == 1:
        return _shown(inputs[0])
    if expression.name == "hyperopt_param":
        return f"hp.{inputs[1].name}({inputs[0].obj!r}, ...)"
    if expression.name == "switch":
        return f"hp.choice({inputs[0].pos_args[0].obj!r}, ...)"
    return f"{expression.name}({', '.join(map(_shown, inputs[:1]))}, ...)"


def _is_expression(value: Any) -> bool:
    return type(value).__module__.startswith("hyperopt.pyll")
