"""Domains: where each hyperparameter may lie, written as Ray Tune's own calls.

A domain reads `loguniform(1e-4, 1e-1)` in YAML, on the command line and in Python; Ray's objects
(`tune.loguniform(1e-4, 1e-1)`) are taken too and become the same value. Text is parsed through a
whitelist of calls with literal arguments and is never evaluated.

Every domain answers `at(u)`: its value at quantile u. Random search draws u, a grid spaces it
evenly, and model-based searchers work in the unit cube that u spans.
"""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from tuner.errors import Fault, unknown
from tuner.parts import Rule

Value = Any  # a hyperparameter's value: number, text, bool, None, or a list or mapping of them


class Domain(ABC):
    """The values that one hyperparameter may take."""

    @abstractmethod
    def at(self, u: float) -> Value:
        """The value at quantile `u`, 0 <= u <= 1; `at(0)` and `at(1)` are the extremes."""

    @abstractmethod
    def extremes(self) -> tuple[Value, ...]:
        """Values such that, if each of these is legal, the whole domain is."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """How many different values there are; None where that is not finite."""


@dataclass(frozen=True, slots=True)
class Numeric(Domain):
    """Numbers from `lower` to `upper`, evenly or log-evenly distributed, on multiples of `q`.

    As in Ray, the upper bound of an integer domain is exclusive, unless `q` > 1 makes it inclusive.
    Bounds that are no multiples of `q` are rounded inwards.
    """

    lower: float
    upper: float
    log: bool = False
    integer: bool = False
    q: float | None = None

    def __post_init__(self) -> None:
        name = self.name
        if self.integer:
            for bound in (self.lower, self.upper, self.q or 1):
                if bound != int(bound):
                    raise Rule(Fault("", f"{name} takes whole numbers", bound))
        if self.lower > self.upper:
            low_high = f"{self.lower:g} and {self.upper:g}"
            raise Rule(Fault("", f"{name}: lower must be at most upper, got {low_high}"))
        if self.log and self.lower <= 0:
            raise Rule(Fault("", f"{name}: lower must be above 0", self.lower))
        if self.q is not None and self.q <= 0:
            raise Rule(Fault("", f"{name}: q must be above 0", self.q))
        if self.first > self.last:
            raise Rule(Fault("", f"{name} has no values between its bounds: {self}"))

    @property
    def name(self) -> str:
        kind = ("log" if self.log else "") + ("randint" if self.integer else "uniform")
        return f"q{kind}" if self.q is not None else kind

    @property
    def step(self) -> float | None:
        """The distance between neighbouring values; None where the domain is continuous."""
        return self.q if self.q is not None else (1 if self.integer else None)

    @property
    def first(self) -> float:
        if self.step is None:
            return self.lower
        return _decimal(_ceil(self.lower / self.step) * self.step)

    @property
    def last(self) -> float:
        if self.step is None:
            return self.upper
        if self.integer and self.step == 1:
            return self.upper - 1
        return _decimal(_floor(self.upper / self.step) * self.step)

    @property
    def size(self) -> int | None:
        if self.step is None:
            return 1 if self.lower == self.upper else None
        return round((self.last - self.first) / self.step) + 1

    def at(self, u: float) -> Value:
        if self.integer:  # each value has a cell of width `step` above it
            return self._cast(self._between(self.first, self.last + (self.step or 1), u, _floor))
        return self._cast(self._between(self.first, self.last, u, round))

    def extremes(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys((self._cast(self.first), self._cast(self.last))))

    def _between(self, low: float, high: float, u: float, snap: Callable[[float], int]) -> float:
        if u <= 0 or u >= 1:  # exp(log(x)) is not always x
            return self.first if u <= 0 else self.last
        if self.log:
            value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
        else:
            value = low + u * (high - low)
        if self.step is not None:
            value = snap(value / self.step) * self.step
        return min(max(value, self.first), self.last)

    def _cast(self, value: float) -> Value:
        if self.integer:
            return round(value)
        return _decimal(value) if self.q is not None else float(value)

    def __str__(self) -> str:
        arguments = [self.lower, self.upper, *([] if self.q is None else [self.q])]
        return f"{self.name}({', '.join(map(_number, arguments))})"


@dataclass(frozen=True, slots=True)
class Normal(Domain):
    """Normally distributed numbers, rounded to multiples of `q` where it is given."""

    mean: float = 0.0
    sd: float = 1.0
    q: float | None = None

    def __post_init__(self) -> None:
        if self.sd <= 0:
            raise Rule(Fault("", "randn: sd must be above 0", self.sd))
        if self.q is not None and self.q <= 0:
            raise Rule(Fault("", "qrandn: q must be above 0", self.q))

    @property
    def size(self) -> int | None:
        return None

    def at(self, u: float) -> Value:
        # unbounded: the extremes are cut at one in ten thousand on each side
        value = NormalDist(self.mean, self.sd).inv_cdf(min(max(u, 1e-4), 1 - 1e-4))
        return value if self.q is None else _decimal(round(value / self.q) * self.q)

    def extremes(self) -> tuple[Value, ...]:
        return (self.at(0.5),)

    def __str__(self) -> str:
        arguments = [self.mean, self.sd, *([] if self.q is None else [self.q])]
        return f"{'randn' if self.q is None else 'qrandn'}({', '.join(map(_number, arguments))})"


@dataclass(frozen=True, slots=True)
class Choice(Domain):
    """One of `values`. A value that is a mapping is a space of its own: a conditional branch.

    `grid` only keeps how it was written: `grid_search([...])` is a choice for every strategy.
    """

    values: tuple[Value, ...]
    grid: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise Rule(Fault("", f"{self.name} needs at least one value, got []"))

    @property
    def name(self) -> str:
        return "grid_search" if self.grid else "choice"

    @property
    def size(self) -> int | None:
        sizes = [space_size(v) if isinstance(v, Mapping) else 1 for v in self.values]
        return None if None in sizes else sum(s for s in sizes if s is not None)

    def at(self, u: float) -> Value:
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def extremes(self) -> tuple[Value, ...]:
        return self.values

    def __str__(self) -> str:
        return f"{self.name}({_literal(list(self.values))})"


Space = Mapping[str, Value]  # name -> Domain, constant, or a mapping of them

# The calls that text may use, with Ray's parameter names: (names, how many are required, builder)
_CALLS: dict[str, tuple[tuple[str, ...], int, Callable[..., Domain]]] = {
    "uniform": (("lower", "upper"), 2, lambda lo, hi: Numeric(lo, hi)),
    "quniform": (("lower", "upper", "q"), 3, lambda lo, hi, q: Numeric(lo, hi, q=q)),
    "loguniform": (("lower", "upper"), 2, lambda lo, hi: Numeric(lo, hi, log=True)),
    "qloguniform": (("lower", "upper", "q"), 3, lambda lo, hi, q: Numeric(lo, hi, log=True, q=q)),
    "randn": (("mean", "sd"), 0, lambda *a: Normal(*a)),
    "qrandn": (("mean", "sd", "q"), 3, lambda mean, sd, q: Normal(mean, sd, q)),
    "randint": (("lower", "upper"), 2, lambda lo, hi: Numeric(lo, hi, integer=True)),
    "qrandint": (("lower", "upper", "q"), 2, lambda *a: _qrandint(*a)),
    "lograndint": (("lower", "upper"), 2, lambda lo, hi: Numeric(lo, hi, log=True, integer=True)),
    "qlograndint": (("lower", "upper", "q"), 3, lambda *a: _qrandint(*a, log=True)),
    "choice": (("categories",), 1, lambda values: Choice(_values(values))),
    "grid_search": (("values",), 1, lambda values: Choice(_values(values), grid=True)),
}


def parse_domain(text: str) -> Domain:
    """The domain that `text` spells, as `loguniform(1e-4, 1e-1)` or `tune.choice([16, 32])`.

    Raises Rule naming the fault: an unknown call, a wrong argument, bounds that cannot be.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Rule(Fault("", "is not a domain that can be read", text)) from None
    parsed = _evaluate(tree, text)
    if not isinstance(parsed, Domain):
        raise Rule(Fault("", "must be one call of a domain", text, tuple(sorted(_CALLS))))
    return parsed


def is_domain_text(text: str) -> bool:
    """Whether `text` looks like a call, as in `choice(...)`: then it must parse as a domain."""
    head, bracket, _ = text.strip().partition("(")
    return bool(bracket) and head.removeprefix("tune.").strip().isidentifier()


def parse_space(raw: Mapping[str, Value]) -> dict[str, Value]:
    """Domains from their text or Ray's objects; constants as they are.

    Raises Rule with every fault of every hyperparameter, keyed by its dotted path.
    """
    space: dict[str, Value] = {}
    faults: list[Fault] = []
    if not raw:
        faults.append(Fault("", "is empty: name at least one hyperparameter and its domain"))
    for key, value in raw.items():
        if not isinstance(key, str) or not key or any(c in "./ " or c.isspace() for c in key):
            faults.append(Fault("", "names must be text without '.', '/' or spaces", key))
            continue
        try:
            space[key] = _parse_value(value)
        except Rule as rule:
            faults += [fault.under(key) for fault in rule.faults]
    if faults:
        raise Rule(*faults)
    return space


def space_text(space: Space) -> dict[str, Value]:
    """The space as plain values with each domain as its text: the inverse of `parse_space`."""
    return {
        key: str(v) if isinstance(v, Domain) else space_text(v) if isinstance(v, Mapping) else v
        for key, v in space.items()
    }


def resolve(space: Space, draw: Callable[[str, Domain], Value], path: str = "") -> dict[str, Value]:
    """A config of `space`: every domain replaced by what `draw(dotted path, domain)` gives.

    A choice that gives a mapping is a branch and is resolved in turn.
    """
    config: dict[str, Value] = {}
    for key, value in space.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Domain):
            value = draw(here, value)
        config[key] = resolve(value, draw, here) if isinstance(value, Mapping) else value
    return config


def space_size(space: Space) -> int | None:
    """How many different configs there are; None where a domain is continuous."""
    total = 1
    for value in space.values():
        if isinstance(value, Mapping):
            size = space_size(value)
        else:
            size = value.size if isinstance(value, Domain) else 1
        if size is None:
            return None
        total *= size
    return total


def domains_of(space: Space, path: str = "") -> Iterator[tuple[str, Domain]]:
    """Every (dotted path, domain) of `space`, those inside branches too, in declared order."""
    for key, value in space.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from domains_of(value, here)
        elif isinstance(value, Domain):
            yield here, value
            if isinstance(value, Choice):
                for branch in value.values:
                    if isinstance(branch, Mapping):
                        yield from domains_of(branch, here)


def names_of(space: Space) -> list[str]:
    """The dotted path of every domain, and every name of `space` itself, constants too."""
    return [*(path for path, _ in domains_of(space)), *space]


def from_ray(domain: Any) -> Domain:
    """Our value of Ray's `domain`. Raises Rule where it has none (`sample_from`, a custom one)."""
    from ray.tune.search import sample

    sampler = domain.get_sampler()
    q = None
    if isinstance(sampler, sample.Quantized):
        q, sampler = sampler.q, sampler.sampler
    log = isinstance(sampler, sample.LogUniform)
    if isinstance(domain, sample.Categorical):
        return Choice(_values(domain.categories), grid=isinstance(sampler, sample.Grid))
    if isinstance(domain, sample.Float) and isinstance(sampler, sample.Normal):
        return Normal(sampler.mean, sampler.sd, q)
    if isinstance(domain, sample.Float):
        return Numeric(domain.lower, domain.upper, log=log, q=q)
    if isinstance(domain, sample.Integer):
        if q is not None:
            return _qrandint(domain.lower, domain.upper, q, log=log)
        return Numeric(domain.lower, domain.upper, log=log, integer=True)
    kind = type(domain).__name__
    raise Rule(Fault("", f"Ray's {kind} domain cannot be searched", choices=tuple(sorted(_CALLS))))


def _parse_value(value: Value) -> Value:
    if isinstance(value, str) and is_domain_text(value):
        return parse_domain(value)
    if isinstance(value, Mapping):
        if set(value) == {"grid_search"} and isinstance(value["grid_search"], Sequence):
            return Choice(_values(value["grid_search"]), grid=True)  # what tune.grid_search gives
        return parse_space(value)
    if type(value).__module__.startswith("ray.tune.search"):
        return from_ray(value)
    if isinstance(value, Domain):
        return value
    _literal(value)
    return list(value) if isinstance(value, tuple) else value


def _values(raw: Sequence[Value]) -> tuple[Value, ...]:
    if isinstance(raw, str | bytes) or not isinstance(raw, Sequence):
        raise Rule(Fault("", "takes a list of values", raw))
    values = tuple(_parse_value(value) for value in raw)
    for value in values:
        if isinstance(value, Domain):
            rule = "an option is a value, or a mapping of names to domains"
            raise Rule(Fault("", rule, str(value)))
    return values


def _qrandint(lower: float, upper: float, q: float = 1, *, log: bool = False) -> Numeric:
    if q == 1:  # as in Ray: the upper bound stays exclusive
        return Numeric(lower, upper, log=log, integer=True)
    return Numeric(lower, upper, log=log, integer=True, q=q)


def _evaluate(node: ast.expr, text: str) -> Value:
    """The value of a whitelisted expression: literals, lists, mappings, and the domains' calls."""
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluate(item, text) for item in items]
        case ast.Dict(keys=keys, values=values) if all(isinstance(k, ast.Constant) for k in keys):
            names = [_evaluate(key, text) for key in keys if key is not None]
            return dict(zip(names, [_evaluate(v, text) for v in values], strict=True))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="tune"), attr=name)):
            return _call(name, node, text)
    raise Rule(
        Fault("", f"{ast.unparse(node)!r} is not a literal (number, text, list, mapping)", text)
    )


def _call(name: str, node: ast.Call, text: str) -> Domain:
    if name not in _CALLS:
        raise Rule(unknown("", "domain", name, _CALLS))
    names, required, build = _CALLS[name]
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in given:
            raise Rule(unknown("", f"argument of {name}", str(keyword.arg), names))
        given[keyword.arg] = keyword.value
    if len(node.args) > len(names) or any(n not in given for n in names[:required]):
        raise Rule(Fault("", f"{name} takes ({', '.join(names)})", text))
    arguments = [_evaluate(given[n], text) for n in names if n in given]
    if name in ("choice", "grid_search"):
        return build(*arguments)
    for argument in arguments:
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise Rule(Fault("", f"{name} takes numbers", argument))
        if not math.isfinite(argument):
            raise Rule(Fault("", f"{name} takes finite numbers", argument))
    return build(*arguments)


def _literal(value: Value) -> str:
    """`value` as text that `parse_domain` reads back; raises Rule where it is not plain."""
    match value:
        case Domain():
            return str(value)
        case bool() | None | str():
            return repr(value)
        case int() | float() if math.isfinite(value):
            return _number(value)
        case list() | tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{k!r}: {_literal(v)}' for k, v in value.items())}}}"
    raise Rule(Fault("", "must be plain: number, text, bool, None, list or mapping", value))


def _number(value: float) -> str:
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def _decimal(value: float) -> float:
    """What a product with a step is meant to be: 3 * 0.1 is 0.30000000000000004 without it."""
    return float(f"{value:.12g}")


def _ceil(x: float) -> int:
    return round(x) if math.isclose(x, round(x), rel_tol=1e-9) else math.ceil(x)


def _floor(x: float) -> int:
    return round(x) if math.isclose(x, round(x), rel_tol=1e-9) else math.floor(x)
