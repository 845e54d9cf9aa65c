"""A config drawn at random, for a search whose model has none to propose."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from tuner.errors import Fault, SpecError
from tuner.spec.space.constraints import MAX_DRAWS, Constraints
from tuner.spec.space.domains import Value
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.grid import MAX_LISTED, cells, every_value, space_size

_DRAWS = 1000  # that may be forbidden or tried before the configs that are left are listed


def draw_untried(
    encoding: Encoding, constraints: Constraints, tried: Set[str], rng: np.random.Generator
) -> dict[str, Value] | None:
    """An allowed config whose key is not among `tried`; None where none is left.

    Raises SpecError where what is allowed is too little to be found.
    """
    size = space_size(encoding.space)
    listed = size is not None and size <= MAX_LISTED
    count = _DRAWS if listed else MAX_DRAWS
    draws = (encoding.decode(rng.random(len(encoding))) for _ in range(count))
    for config in constraints.untried(draws, tried):
        return config
    if not listed:
        fault = Fault("forbid", f"leaves nothing that {count} random draws could find")
        raise SpecError([fault], "the searcher")
    left = list(constraints.untried(cells(encoding.space, every_value), tried))
    return left[int(rng.integers(len(left)))] if left else None
