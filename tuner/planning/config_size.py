"""Whether each config that a search may suggest fits into the journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tuner.errors import Fault
from tuner.experiment.events import DEEPEST
from tuner.experiment.reading import LONGEST
from tuner.spec.space.domains import Choice, Domain

LARGEST = LONGEST - (1 << 20)  # bytes of a config as JSON: there is more in its line

_NUMBER = 26  # characters of the longest float, and a comma


def config_faults(search: Any) -> Iterator[Fault]:
    """What is nested too deep or too large in a search's space, and among the configs given."""
    given = [("search.space", search.space)]
    for field in ("configs", "points_to_evaluate"):
        configs = getattr(search, field, ())
        given += [(f"search.{field}.{number}", config) for number, config in enumerate(configs)]
    for key, config in given:
        levels, size = extent(config)
        if levels > DEEPEST:
            yield Fault(key, f"must be nested at most {DEEPEST} levels deep", levels)
        if size > LARGEST:
            yield Fault(key, f"must give configs of at most {LARGEST:,} bytes as JSON", size)


def extent(value: Any) -> tuple[int, int]:
    """(how deep a value lies in it, bytes as JSON) of the largest that `value` may become.

    >>> extent({"lr": [1, 2]})
    (2, 18)
    """
    if isinstance(value, Choice):
        options = [extent(option) for option in value.values]
        return max(levels for levels, _ in options), max(size for _, size in options)
    if isinstance(value, Domain):
        return 0, _NUMBER
    if not isinstance(value, Mapping | list | tuple):
        return 0, len(json.dumps(value)) + 1
    inner = list(map(extent, value.values() if isinstance(value, Mapping) else value))
    names = sum(len(json.dumps(name)) + 1 for name in value) if isinstance(value, Mapping) else 0
    levels = 1 + max((levels for levels, _ in inner), default=-1)
    return levels, names + 3 + sum(size for _, size in inner)
