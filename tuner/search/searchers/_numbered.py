"""Searchers that learn nothing: config k depends on k, the seed and the space alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ray.tune.search import Searcher

from tuner.spec.space.spaces import config_key


class NumberedSearch(Searcher):
    """`suggest("00007")` is always `config_of(7)`, which is None where the space has no such.

    Trials that are passed over are not counted: they had their configs from elsewhere. strategy:
    its name, which is why a config was suggested. seeds: those that trials have in turn; None
    stands for the experiment's.
    """

    def __init__(
        self,
        strategy: str,
        config_of: Callable[[int], dict[str, Any] | None],
        seeds: Sequence[int | None] = (None,),
    ) -> None:
        super().__init__()
        self._strategy, self._config_of, self._seeds = strategy, config_of, seeds
        self._passed: list[int] = []  # numbers of trials
        self._skipped: frozenset[str] = frozenset()  # keys of configs
        self._numbers: list[int] = []  # of the first configs that are not skipped
        self._next = 0  # the number after those that were looked at

    def skip(self, configs: Iterable[Mapping[str, Any]]) -> None:
        """Leave these configs out wherever they come; before the first suggestion."""
        self._skipped = frozenset(map(config_key, configs))

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED where the space has no such number."""
        config = self._config(self._number(trial_id) // len(self._seeds))
        return Searcher.FINISHED if config is None else config

    def _config(self, number: int) -> dict[str, Any] | None:
        """Config `number` of those that are not skipped."""
        if not self._skipped:
            return self._config_of(number)
        while len(self._numbers) <= number:
            config = self._config_of(self._next)
            if config is None:
                return None
            if config_key(config) not in self._skipped:
                self._numbers.append(self._next)
            self._next += 1
        return self._config_of(self._numbers[number])

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested."""
        return self._strategy

    def seed_of(self, trial_id: str) -> int | None:
        """The trial's own seed; None where it is the experiment's."""
        return self._seeds[self._number(trial_id) % len(self._seeds)]

    def pass_over(self, trial_id: str) -> None:
        """Leave out a trial with a later number than all before it."""
        self._passed.append(int(trial_id))

    def _number(self, trial_id: str) -> int:
        return int(trial_id) - bisect_left(self._passed, int(trial_id))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, as `save` and `restore`: there is no state."""

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...
