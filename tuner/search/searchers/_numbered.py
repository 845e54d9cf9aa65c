"""Searchers that learn nothing: config k depends on k, the seed and the space alone."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NoReturn

import numpy as np
from ray.tune.search import Searcher

from tuner.errors import Fault, SpecError
from tuner.spec.space.constraints import MAX_DRAWS, filter_untried, is_allowed
from tuner.spec.space.grid import MAX_LISTED, count_configs, every_value, iterate_cells
from tuner.spec.space.spaces import compute_config_key, config_at
from tuner.spec.strategies import SearchSettings

DrawConfig = Callable[[int], dict[str, Any]]  # config k
FindConfig = Callable[[int], dict[str, Any] | None]  # None after the last

_DRAWS = 100  # repeats, before the remaining configs are listed


class NumberedSearch(Searcher):
    """`suggest("00007")` is `config_of(7)`, None after the last; forbidden and skipped are left
    out.

    strategy: the origin of its configs. seeds: of the trials in turn; None: the experiment's.
    """

    def __init__(
        self,
        strategy: str,
        config_of: FindConfig,
        seeds: Sequence[int | None] = (None,),
        forbid: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._strategy = strategy
        self._config_of = config_of
        self._seeds = seeds
        self._forbid = forbid
        self._passed: list[int] = []  # numbers of trials
        self._skipped: frozenset[str] = frozenset()  # keys of configs
        self._first: list[dict[str, Any]] = []
        self._numbers: list[int] = []  # of the first configs that are not left out
        self._next = 0  # the first number that was not checked

    def skip(self, configs: Iterable[Mapping[str, Any]]) -> None:
        """Leave these configs out; call it before the first suggestion."""
        keys = set(map(compute_config_key, configs))
        self._first = [c for c in self._first if compute_config_key(c) not in keys]
        self._skipped |= keys

    def queue_configs(self, configs: Iterable[dict[str, Any]]) -> None:
        """Suggest these first, each once and no skipped one; call it before any suggestion."""
        for config in configs:
            key = compute_config_key(config)
            if key not in self._skipped:
                self._first.append(config)
                self._skipped |= {key}

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED after the last one."""
        config = self._find_config(self._compute_number(trial_id) // len(self._seeds))
        return Searcher.FINISHED if config is None else config

    def _find_config(self, number: int) -> dict[str, Any] | None:
        """Config `number` of those that are not left out."""
        if number < len(self._first):
            return deepcopy(self._first[number])
        number -= len(self._first)
        if not self._skipped and not self._forbid:
            return self._config_of(number)
        while len(self._numbers) <= number:
            config = self._config_of(self._next)
            if config is None:
                return None
            if (
                is_allowed(self._forbid, config)
                and compute_config_key(config) not in self._skipped
            ):
                self._numbers.append(self._next)
            self._next += 1
        return self._config_of(self._numbers[number])

    def origin(self, trial_id: str) -> str:
        is_first = self._compute_number(trial_id) < len(self._first)
        return "initial" if is_first else self._strategy

    def seed_of(self, trial_id: str) -> int | None:
        """The trial's seed; None for the experiment's."""
        return self._seeds[self._compute_number(trial_id) % len(self._seeds)]

    def pass_over(self, trial_id: str) -> None:
        """Do not count a trial, whose number no later suggestion is below."""
        insort(self._passed, int(trial_id))

    def _compute_number(self, trial_id: str) -> int:
        return int(trial_id) - bisect_left(self._passed, int(trial_id))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing: no suggestion depends on it."""


class DistinctConfigs:
    """Config k, each once in a finite space; None after the last one.

    first: makes config k; a random one replaces a forbidden config or a repeat.
    """

    def __init__(
        self,
        settings: SearchSettings,
        seed: int,
        first: DrawConfig | None = None,
    ) -> None:
        self._space = settings.space
        self._seed = seed
        self._first = first
        self._size = count_configs(settings.space)
        self._forbid = settings.forbid
        self._drawn: list[dict[str, Any]] = []  # configs 0, 1, ... of a finite space
        self._keys: set[str] = set()  # of the drawn ones
        # The last few, shuffled, once listed
        self._left: list[dict[str, Any]] | None = None

    def __call__(self, number: int) -> dict[str, Any] | None:
        if self._size is None:
            return self._draw_next(number)
        while len(self._drawn) <= number:
            config = self._draw_next(len(self._drawn))
            if config is None:
                return None
            self._drawn.append(config)
            self._keys.add(compute_config_key(config))
        return self._drawn[number]

    def _draw_next(self, number: int) -> dict[str, Any] | None:
        """A config that was not drawn yet, or None if none of a finite space is left."""
        if self._size is None or self._size > MAX_LISTED:
            return self._draw_new(number, MAX_DRAWS) or raise_nothing_left(MAX_DRAWS)
        if self._left is None:
            if config := self._draw_new(number, _DRAWS):
                return config
            left = list(
                filter_untried(
                    iterate_cells(self._space, every_value), self._keys, self._forbid
                )
            )
            order = np.random.default_rng((self._seed, number)).permutation(len(left))
            self._left = [left[i] for i in order]
        return self._left.pop() if self._left else None

    def _draw_new(self, number: int, draws: int) -> dict[str, Any] | None:
        """The first of so many draws that is allowed and was not drawn before."""
        drawn = (self._draw(number, attempt) for attempt in range(draws))
        return next(filter_untried(drawn, self._keys, self._forbid), None)

    def _draw(self, number: int, attempt: int) -> dict[str, Any]:
        if self._first and not attempt:
            return self._first(number)
        rng = np.random.default_rng((self._seed, number, attempt))
        return config_at(self._space, lambda _: rng.random())


def raise_nothing_left(draws: int) -> NoReturn:
    """Raise the SpecError of a search whose random draws were all forbidden or tried."""
    fault = Fault("forbid", f"leaves nothing that {draws} random draws could find")
    raise SpecError([fault], "the search")
