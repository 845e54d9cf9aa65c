"""Grid and random search: config k depends on k, the seed and the space, and on nothing else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from ray.tune.search import Searcher

from tuner.domains import Domain, Value, resolve, space_size
from tuner.grid import cell, count_cells
from tuner.spec import GridSettings, RandomSettings

_TRIES = 100  # draws that may repeat before the configs that are left are listed


class NumberedSearch(Searcher):
    """A searcher that learns nothing: `suggest("00007")` is always config number 7."""

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED where the space has no such number."""
        config = self._config(int(trial_id))
        return Searcher.FINISHED if config is None else config

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
    """The cells of the grid, in order."""

    def __init__(self, settings: GridSettings, seed: int = 0) -> None:
        super().__init__()
        self._settings = settings
        self._cells = count_cells(settings.space, settings.points_of)

    def _config(self, number: int) -> dict[str, Any] | None:
        if number >= self._cells:
            return None
        return cell(self._settings.space, self._settings.points_of, number)


class RandomSearch(NumberedSearch):
    """Independent draws; where the space is finite, each config comes once."""

    def __init__(self, settings: RandomSettings, seed: int = 0) -> None:
        super().__init__()
        self._space = settings.space
        self._seed = seed
        self._size = space_size(settings.space)
        self._drawn: list[dict[str, Any]] = []  # configs 0, 1, ... of a finite space
        self._seen: set[str] = set()
        self._left: list[dict[str, Any]] | None = None  # once few are left: those, shuffled

    def _config(self, number: int) -> dict[str, Any] | None:
        if self._size is None:
            return self._draw(number, 0)
        while len(self._drawn) <= number:
            if len(self._drawn) == self._size:
                return None
            config = self._unseen(len(self._drawn))
            self._drawn.append(config)
            self._seen.add(_key(config))
        return self._drawn[number]

    def _unseen(self, number: int) -> dict[str, Any]:
        if self._left is None:
            for attempt in range(_TRIES):
                config = self._draw(number, attempt)
                if _key(config) not in self._seen:
                    return config
            self._left = self._list_left(number)
        return self._left.pop()

    def _list_left(self, number: int) -> list[dict[str, Any]]:
        cells = range(count_cells(self._space, _every_value))
        configs = (cell(self._space, _every_value, index) for index in cells)
        left = [config for config in configs if _key(config) not in self._seen]
        order = np.random.default_rng((self._seed, number)).permutation(len(left))
        return [left[i] for i in order]

    def _draw(self, number: int, attempt: int) -> dict[str, Any]:
        rng = np.random.default_rng((self._seed, number, attempt))

        def draw(path: str, domain: Domain) -> Value:
            return domain.at(rng.random())

        return resolve(self._space, draw)


def _every_value(path: str) -> int:
    return 1 << 62  # more points than any finite domain has values


def _key(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
