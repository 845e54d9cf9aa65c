"""Grid and random search: config k depends on k, the seed and the space, and on nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from ray.tune.search import Searcher

from tuner.errors import Fault, SpecError
from tuner.space.constraints import Constraints
from tuner.space.domains import Domain, Value, resolve, space_size
from tuner.space.encoding import config_key
from tuner.space.grid import MOST_LISTED, allowed_cells, cell, count_cells, every_value
from tuner.spec.strategies import GridSettings, RandomSettings

_MOST_TRIES = 10_000  # draws of a space too large to be listed that may be forbidden
_TRIES = 100  # draws that may repeat before the configs that are left are listed


class NumberedSearch(Searcher):
    """A searcher that learns nothing: `suggest("00007")` is always config number 7."""

    _name: str

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED where the space has no such number."""
        config = self._config(int(trial_id))
        return Searcher.FINISHED if config is None else config

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested."""
        return self._name

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing is learned."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing is to be kept."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing was kept."""

    def _config(self, number: int) -> dict[str, Any] | None:
        raise NotImplementedError


class GridSearch(NumberedSearch):
    """The cells of the grid, or the configs that are given, in order, each with every seed."""

    _name = "grid"

    def __init__(self, settings: GridSettings, seed: int = 0) -> None:
        super().__init__()
        self._settings = settings
        self._cells = len(settings.configs) or count_cells(settings.space, settings.points_of)
        self._seeds = settings.seeds or (None,)
        self._constraints = Constraints(settings.forbid)
        self._allowed: list[int] = []  # the first cells that are not forbidden
        self._next_cell = 0

    def seed_of(self, trial_id: str) -> int | None:
        """The trial's own seed; None where it is the experiment's."""
        return self._seeds[int(trial_id) % len(self._seeds)]

    def _config(self, number: int) -> dict[str, Any] | None:
        number //= len(self._seeds)
        if not self._constraints:
            return self._cell(number) if number < self._cells else None
        while len(self._allowed) <= number and self._next_cell < self._cells:
            if self._constraints.allow(self._cell(self._next_cell)):
                self._allowed.append(self._next_cell)
            self._next_cell += 1
        return self._cell(self._allowed[number]) if number < len(self._allowed) else None

    def _cell(self, index: int) -> dict[str, Any]:
        if self._settings.configs:
            return deepcopy(self._settings.configs[index])
        return cell(self._settings.space, self._settings.points_of, index)


class RandomSearch(NumberedSearch):
    """Independent draws; where the space is finite, each config comes once."""

    _name = "random"

    def __init__(self, settings: RandomSettings, seed: int = 0) -> None:
        super().__init__()
        self._space = settings.space
        self._seed = seed
        self._size = space_size(settings.space)
        self._constraints = Constraints(settings.forbid)
        self._drawn: list[dict[str, Any]] = []  # configs 0, 1, ... of a finite space
        self._seen: set[str] = set()
        self._left: list[dict[str, Any]] | None = None  # once few are left: those, shuffled

    def _config(self, number: int) -> dict[str, Any] | None:
        if self._size is None:
            return self._allowed_draw(number)
        while len(self._drawn) <= number:
            config = self._unseen(len(self._drawn))
            if config is None:
                return None
            self._drawn.append(config)
            self._seen.add(config_key(config))
        return self._drawn[number]

    def _allowed_draw(self, number: int) -> dict[str, Any]:
        for attempt in range(_MOST_TRIES):
            config = self._draw(number, attempt)
            if self._constraints.allow(config):
                return config
        raise _nothing_found()

    def _unseen(self, number: int) -> dict[str, Any] | None:
        if self._left is None:
            few = self._size is not None and self._size <= MOST_LISTED
            for attempt in range(_TRIES if few else _MOST_TRIES):
                config = self._draw(number, attempt)
                if config_key(config) not in self._seen and self._constraints.allow(config):
                    return config
            if not few:
                raise _nothing_found()
            self._left = self._list_left(number)
        return self._left.pop() if self._left else None

    def _list_left(self, number: int) -> list[dict[str, Any]]:
        allowed = allowed_cells(self._space, every_value, self._constraints)
        left = [config for config in allowed if config_key(config) not in self._seen]
        order = np.random.default_rng((self._seed, number)).permutation(len(left))
        return [left[i] for i in order]

    def _draw(self, number: int, attempt: int) -> dict[str, Any]:
        rng = np.random.default_rng((self._seed, number, attempt))

        def draw(path: str, domain: Domain) -> Value:
            return domain.at(rng.random())

        return resolve(self._space, draw)


def _nothing_found() -> SpecError:
    fault = Fault("forbid", f"leaves nothing that {_MOST_TRIES} random draws could find")
    return SpecError([fault], "the search")
