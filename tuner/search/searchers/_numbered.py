"""Searchers that learn nothing: config k depends on k, the seed and the space alone."""

from __future__ import annotations

from typing import Any, Protocol

from ray.tune.search import Searcher


class Configs(Protocol):
    """The configs of a strategy by number."""

    def config(self, number: int) -> dict[str, Any] | None:
        """Config `number`; None where the space has no such."""

    def seed(self, number: int) -> int | None:
        """The seed of trial `number`; None where it is the experiment's."""


class NumberedSearch(Searcher):
    """`suggest("00007")` is always config number 7."""

    def __init__(self, strategy: str, configs: Configs) -> None:
        super().__init__()
        self._strategy, self._configs = strategy, configs

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial, or FINISHED where the space has no such number."""
        config = self._configs.config(int(trial_id))
        return Searcher.FINISHED if config is None else config

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested."""
        return self._strategy

    def seed_of(self, trial_id: str) -> int | None:
        """The trial's own seed; None where it is the experiment's."""
        return self._configs.seed(int(trial_id))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing: results are not learned from."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: there is no state."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: there is no state."""
