"""Searchers that learn nothing: config k depends on k, the seed and the space alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune.search import Searcher


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
        self._passed: list[int] = []

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED where the space has no such number."""
        config = self._config_of(self._number(trial_id) // len(self._seeds))
        return Searcher.FINISHED if config is None else config

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
