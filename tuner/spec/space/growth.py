"""Whether a search space contains an earlier one, so that every earlier config is still of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tuner.errors import Fault, unknown
from tuner.spec.space.domains import Choice, Domain, Numeric, Space, Value
from tuner.spec.space.encoding import is_same, quantile
from tuner.spec.space.spaces import ROOT, Position


def not_contained(old: Space, new: Space, at: Position = ROOT) -> Iterator[Fault]:
    """A fault for each value of `new` that does not contain that of `old`.

    Numbers keep their kind (scale, whole numbers, multiples) and may get wider bounds, a choice
    more options, and a constant a domain that has it. No name is added or left out.
    """
    for name in new.keys() - old.keys():
        yield unknown(at.below(name).path, "hyperparameter of the earlier trials", name, old)
    for name, value in old.items():
        path, wider = at.below(name).path, new.get(name)
        if isinstance(value, Mapping) and isinstance(wider, Mapping):
            yield from not_contained(value, wider, at.below(name))
        elif name not in new or not _contains(wider, value):
            got = f", got {wider}" if name in new else ""
            yield Fault(path, f"must contain the earlier {value} and be of its kind{got}")


def _contains(new: Value, old: Value) -> bool:
    if isinstance(new, Choice) and isinstance(old, Choice):
        return all(any(_option_contains(n, o) for n in new.values) for o in old.values)
    if isinstance(new, Numeric) and isinstance(old, Numeric):
        same_kind = (new.log, new.integer, new.step) == (old.log, old.integer, old.step)
        return same_kind and new.first <= old.first and old.last <= new.last
    if isinstance(new, Choice) and not isinstance(old, Domain):
        return any(is_same(option, old) for option in new.values)
    if isinstance(new, Domain) and not isinstance(old, Domain):
        return quantile(new, old) is not None
    return is_same(new, old)


def _option_contains(new: Value, old: Value) -> bool:
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return not any(not_contained(old, new))
    return is_same(new, old)
