"""Searchers that learn nothing: config k depends on k, the seed and the space alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ray.tune.search import Searcher


class NumberedSearch(Searcher):
    """`suggest("00007")` is always `config_of(7)`, which is None where the space has no such.

    strategy: its name, which is why a config was suggested. seeds: those that trials have in turn;
    None stands for the experiment's.
    """

    def __init__(
        self,
        strategy: str,
        config_of: Callable[[int], dict[str, Any] | None],
        seeds: Sequence[int | None] = (None,),
    ) -> None:
        super().__init__()
        self._strategy, self._config_of, self._seeds = strategy, config_of, seeds

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED where the space has no such number."""
        config = self._config_of(int(trial_id) // len(self._seeds))
        return Searcher.FINISHED if config is None else config

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested."""
        return self._strategy

    def seed_of(self, trial_id: str) -> int | None:
        """The trial's own seed; None where it is the experiment's."""
        return self._seeds[int(trial_id) % len(self._seeds)]

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, as `save` and `restore`: there is no state."""

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...
