"""Grid search: the cells of a grid, or a list of configs, each with every seed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tuner.search.searchers import numbered_searcher
from tuner.spec.space.constraints import Constraints
from tuner.spec.space.grid import Spread, cell, count_cells, spread
from tuner.spec.strategies import GridSettings

if TYPE_CHECKING:
    from ray.tune.search import Searcher

SETTINGS = GridSettings  # in `tuner.spec`, which needs it to confirm leaders


def build(settings: GridSettings, seed: int, **_: Any) -> Searcher:
    """The searcher of these settings; nothing in it depends on the seed."""
    return numbered_searcher("grid", GridConfigs(settings), settings.seeds or (None,))


class GridConfigs:
    """Config k of a grid, seeds aside; None behind the last one."""

    def __init__(self, settings: GridSettings) -> None:
        self._settings = settings
        self._cells = len(settings.configs) or count_cells(settings.space, settings.points_of)
        self._constraints = Constraints(settings.forbid)
        self._allowed: list[int] = []  # the first cells that are not forbidden
        self._next_cell = 0
        self._order: Sequence[int] | Spread = range(self._cells)
        if settings.order == "spread" and not settings.configs:
            self._order = spread(settings.space, settings.points_of, through=settings.through)

    def __call__(self, number: int) -> dict[str, Any] | None:
        if not self._constraints:
            return self._cell(number) if number < self._cells else None
        while len(self._allowed) <= number and self._next_cell < self._cells:
            if self._constraints.allow(self._cell(self._next_cell)):
                self._allowed.append(self._next_cell)
            self._next_cell += 1
        return self._cell(self._allowed[number]) if number < len(self._allowed) else None

    def _cell(self, number: int) -> dict[str, Any]:
        settings = self._settings
        if settings.configs:
            return deepcopy(settings.configs[number])
        index = self._order[number]
        return cell(settings.space, settings.points_of, index, through=settings.through)
