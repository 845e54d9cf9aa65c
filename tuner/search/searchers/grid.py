"""Grid search: the cells of a grid, or a list of configs, each with every seed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tuner.search.searchers import numbered_searcher
from tuner.spec.space.grid import Grid
from tuner.spec.strategies import GridSettings

SETTINGS = GridSettings  # in `tuner.spec`, which needs it to confirm leaders


def build(settings: GridSettings, seed: int, **_: Any) -> Any:
    """The searcher of these settings; nothing in it depends on the seed."""
    configs = settings.configs
    grid = Grid(settings.space, settings.count_points, through=settings.through)
    count = len(configs) or grid.size
    order: Sequence[int] = range(count)
    if settings.order == "spread" and not configs:
        order = grid.shuffle_cells()
        count = len(order)

    def find_config(number: int) -> dict[str, Any] | None:
        if number >= count:
            return None
        if configs:
            return deepcopy(configs[number])
        return grid[order[number]]

    return numbered_searcher(
        "grid", find_config, settings.seeds or (None,), settings.forbid
    )
