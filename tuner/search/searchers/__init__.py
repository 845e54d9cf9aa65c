"""Searchers: they suggest configs. Each module is a strategy of its name, or `_machinery`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.spec.sections import Objective
from tuner.spec.strategies import SEARCHERS, SearchSettings

if TYPE_CHECKING:
    from ray.tune.search import Searcher


def build_searcher(
    settings: SearchSettings,
    seed: int,
    *,
    objective: Objective | None = None,
    max_t: int | None = None,
    slots: int = 1,
) -> Searcher:
    """The searcher for `settings`; the same seed suggests the same configs.

    objective, max_t (epochs of a whole trial) and slots (trials that run at a time) are for the
    strategies that learn from results.
    """
    module = SEARCHERS.extension(settings.strategy)
    searcher: Searcher = module.build(settings, seed, objective=objective, max_t=max_t, slots=slots)
    return searcher
