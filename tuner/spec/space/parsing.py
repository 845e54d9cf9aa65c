"""Spaces and domains from text, by a whitelist and never evaluated, or from Ray's objects."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tuner.errors import Fault, build_unknown_fault
from tuner.spec.plain_values import convert_scalar, convert_values, is_number
from tuner.spec.settings import FaultsError, bad_value
from tuner.spec.space.domains import (
    Choice,
    Domain,
    Normal,
    Numeric,
    Prior,
    Value,
    constant,
    format_literal,
)


class Call(NamedTuple):
    """A call that text may use. `build` takes the arguments by Ray's names for them."""

    arguments: tuple[str, ...]
    required: int  # the number of arguments that must be given
    meaning: str
    build: Callable[..., Domain]
    numbers: bool = True  # whether it takes numbers alone


def _qrandint(
    lower: float, upper: float, q: float = 1, *, log: bool = False
) -> Numeric:
    # As in Ray, q = 1 leaves the upper bound exclusive
    return Numeric(lower, upper, log=log, integer=True, q=None if q == 1 else q)


_BOUNDS = ("lower", "upper")
_STEPS = (*_BOUNDS, "q")
_QUANTIZED = "the same, of the multiples of `q`"

CALLS = {
    "uniform": Call(
        _BOUNDS, 2, "numbers from `lower` to `upper`, all equally likely", Numeric
    ),
    "quniform": Call(_STEPS, 3, _QUANTIZED, Numeric),
    "loguniform": Call(
        _BOUNDS,
        2,
        "numbers above 0 whose logarithm is uniform: for learning rates and their like",
        partial(Numeric, log=True),
    ),
    "qloguniform": Call(_STEPS, 3, _QUANTIZED, partial(Numeric, log=True)),
    "randn": Call(
        ("mean", "sd"),
        0,
        "normally distributed numbers; mean 0 and sd 1 unless given",
        Normal,
    ),
    "qrandn": Call(("mean", "sd", "q"), 3, _QUANTIZED, Normal),
    "randint": Call(
        _BOUNDS,
        2,
        "whole numbers from `lower` on, below `upper`",
        partial(Numeric, integer=True),
    ),
    "qrandint": Call(
        _STEPS,
        2,
        "multiples of `q` from `lower` to `upper`, which is among them unless `q` is 1",
        _qrandint,
    ),
    "lograndint": Call(
        _BOUNDS,
        2,
        "whole numbers from `lower` on, below `upper`, whose logarithm is uniform",
        partial(Numeric, log=True, integer=True),
    ),
    "qlograndint": Call(
        _STEPS,
        3,
        "multiples of `q` from `lower` to `upper`, whose logarithm is uniform",
        partial(_qrandint, log=True),
    ),
    "choice": Call(
        ("categories",),
        1,
        "one of a list of values; a mapping among these is a branch with names of its own",
        lambda categories: Choice(_parse_options(categories)),
        numbers=False,
    ),
    "grid_search": Call(
        ("values",),
        1,
        "the same, as Ray writes it; every strategy takes it. Unlike in Ray Tune it does not "
        "multiply `num_samples`, which counts all trials. Every value is tried once by "
        "`--search grid`",
        lambda values: Choice(_parse_options(values), "grid_search"),
        numbers=False,
    ),
    "constant": Call(
        ("value",),
        1,
        "this value in every trial: for a list that is meant as one value",
        constant,
        numbers=False,
    ),
}

_NO_FUNCTION = (
    "sample_from cannot be searched: write a domain, put a hyperparameter that depends on another "
    "into a branch of its choice, and compute all else in the trainable"
)

PRIOR = ("prior", "confidence")
WITHOUT_PRIOR = ("randn", "qrandn", "constant")

EXAMPLES = (
    "uniform(0, 1)",
    "loguniform(1e-4, 1e-1)",
    "randint(1, 9)",
    "choice([16, 32])",
)

_MAX_NAMES = 1000
MAX_LENGTH = 100_000  # characters of a domain: a choice of some 20,000 numbers


def parse_space(raw: Any) -> dict[str, Value]:
    """The space of names to constants and domains. Raises FaultsError with every fault."""
    if not isinstance(raw, Mapping):
        raise bad_value("must be a mapping of names to domains and values", raw)
    if len(raw) > _MAX_NAMES:
        raise bad_value(f"must be at most {_MAX_NAMES} hyperparameters", len(raw))
    space: dict[str, Value] = {}
    faults: list[Fault] = []
    if not raw:
        faults.append(
            Fault("", "is empty: name at least one hyperparameter and its domain")
        )
    for raw_key, value in raw.items():
        key = convert_scalar(raw_key)
        if (
            not isinstance(key, str)
            or not key
            or any(c in "./ " or c.isspace() for c in key)
        ):
            nested = "; nest them: model_args: {width: ...}" if "." in str(key) else ""
            faults.append(
                Fault("", f"names must be text without '.', '/' or spaces{nested}", key)
            )
            continue
        try:
            space[key] = _parse_value(value)
        except FaultsError as error:
            faults += [fault.add_prefix(key) for fault in error.faults]
        except RecursionError:
            raise bad_value("is nested too deep to be read") from None
    if faults:
        raise FaultsError(*faults)
    return space


def parse_domain(text: str) -> Domain:
    """The domain that `text` spells, as `tune.choice([16, 32])`. Raises FaultsError."""
    if len(text) > MAX_LENGTH:
        rule = (
            f"is a domain of {len(text):,} characters, must be at most {MAX_LENGTH:,}"
        )
        raise bad_value(rule, text)
    try:
        parsed = _evaluate(ast.parse(text.strip(), mode="eval").body, text)
    except FaultsError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise bad_value("cannot be read as a domain", text, EXAMPLES) from None
    if not isinstance(parsed, Domain):
        raise bad_value("must be one call of a domain", text, tuple(sorted(CALLS)))
    return parsed


def convert_ray_domain(domain: Any) -> Domain:
    """The domain that equals Ray's. Raises FaultsError if there is none, as for `sample_from`."""
    from ray.tune.search import sample

    if isinstance(domain, sample.Function):
        raise bad_value(_NO_FUNCTION)
    sampler = domain.get_sampler()
    q = None
    if isinstance(sampler, sample.Quantized):
        q = convert_scalar(sampler.q)
        sampler = sampler.sampler
    if isinstance(domain, sample.Categorical):
        name = "grid_search" if isinstance(sampler, sample.Grid) else "choice"
        return Choice(_parse_options(domain.categories), name)
    if isinstance(sampler, sample.Normal):
        return Normal(convert_scalar(sampler.mean), convert_scalar(sampler.sd), q)
    lower, upper = map(convert_scalar, (domain.lower, domain.upper))
    log = isinstance(sampler, sample.LogUniform)
    if isinstance(domain, sample.Integer) and q is not None:
        return _qrandint(lower, upper, q, log=log)
    integer = isinstance(domain, sample.Integer)
    return Numeric(lower, upper, log=log, integer=integer, q=q)


def _parse_value(value: Value) -> Value:
    value = convert_scalar(value)
    if isinstance(value, str) and extract_call_name(value) is not None:
        return parse_domain(value)
    if isinstance(value, Mapping):
        if set(value) == {"grid_search"} and isinstance(value["grid_search"], Sequence):
            return Choice(
                _parse_options(value["grid_search"]), "grid_search"
            )  # as tune.grid_search
        return parse_space(value)
    if type(value).__module__.startswith("ray.tune.search"):
        return convert_ray_domain(value)
    if isinstance(value, Domain):
        return value
    format_literal(value)  # raises FaultsError for what is not plain
    return convert_values(value)


def extract_call_name(text: str) -> str | None:
    """The name before the bracket if `text` looks like a call, or None."""
    head, bracket, _ = text.strip().partition("(")
    name = head.removeprefix("tune.").strip()
    return name if bracket and name.isidentifier() else None


def _parse_options(raw: Sequence[Value]) -> tuple[Value, ...]:
    if isinstance(raw, str | bytes) or not isinstance(raw, Sequence):
        raise bad_value("takes a list of values, as choice([16, 32])", raw)
    # Text that calls no domain, as "resnet(18)", is text
    options = tuple(
        value
        if isinstance(value, str) and extract_call_name(value) not in CALLS
        else _parse_value(value)
        for value in map(convert_scalar, raw)
    )
    for option in options:
        if isinstance(option, Domain):
            raise bad_value(
                "an option is a value, or a mapping of names to domains", str(option)
            )
    return options


def _evaluate(node: ast.expr, text: str) -> Value:
    """The value of a whitelisted expression: literals, lists, mappings, and the domains' calls."""
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None as value):
            return value
        case ast.UnaryOp(
            op=ast.USub(), operand=ast.Constant(value=int() | float() as value)
        ):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluate(item, text) for item in items]
        case ast.Dict(keys=keys, values=values) if all(
            isinstance(k, ast.Constant) for k in keys
        ):
            names = (_evaluate(key, text) for key in keys if key is not None)
            return dict(zip(names, [_evaluate(v, text) for v in values], strict=True))
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="tune"), attr=name)
        ):
            return _evaluate_call(name, node, text)
    rule = (
        f"{ast.unparse(node)!r} is not a literal (number, quoted text, list, mapping)"
    )
    raise bad_value(rule, text)


def _evaluate_call(name: str, node: ast.Call, text: str) -> Domain:
    if name == "sample_from":
        raise bad_value(_NO_FUNCTION)
    if name not in CALLS:
        raise FaultsError(build_unknown_fault("", "domain", name, CALLS))
    names, required, _, build, takes_numbers = CALLS[name]
    arguments = dict(zip(names, node.args, strict=False))
    allowed = names if name in WITHOUT_PRIOR else (*names, *PRIOR)
    for keyword in node.keywords:
        if keyword.arg not in allowed or keyword.arg in arguments:
            raise FaultsError(
                build_unknown_fault(
                    "", f"argument of {name}", str(keyword.arg), allowed
                )
            )
        arguments[keyword.arg] = keyword.value
    if len(node.args) > len(names) or any(n not in arguments for n in names[:required]):
        raise bad_value(f"{name} takes ({', '.join(names)})", text)
    values = {n: _evaluate(argument, text) for n, argument in arguments.items()}
    prior = {n: values.pop(n) for n in PRIOR if n in values}
    for n, value in {**values, **prior}.items():
        if (takes_numbers or n == "confidence") and not is_number(value):
            raise bad_value(f"{name} takes numbers", value)
    domain = build(**values)
    if not prior:
        return domain
    if "prior" not in prior:
        raise bad_value("confidence needs a prior", text)
    assert isinstance(domain, Numeric | Choice)
    return replace(domain, prior=Prior(prior["prior"], prior.get("confidence", 1.0)))
