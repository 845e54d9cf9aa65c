"""Searchers suggest configs. Each module is a strategy, or `_machinery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.tune.search import Searcher

    from tuner.search.searchers._learning import Model
    from tuner.search.searchers._numbered import (
        DrawConfig,
        FindConfig,
        NumberedSearch,
    )
    from tuner.spec.sections import Objective
    from tuner.spec.strategies import ModelSettings, SearchSettings


def numbered_searcher(
    strategy: str,
    config_of: FindConfig,
    seeds: Sequence[int | None] = (None,),
    forbid: Sequence[str] = (),
) -> Searcher:
    """The searcher whose config k depends on k alone; see `NumberedSearch`."""
    from tuner.search.searchers._numbered import NumberedSearch

    return NumberedSearch(strategy, config_of, seeds, forbid)


def distinct_searcher(
    settings: SearchSettings,
    seed: int,
    first: DrawConfig | None = None,
) -> NumberedSearch:
    """The searcher that tries `first(k)` as config k, else draws; see `DistinctConfigs`."""
    from tuner.search.searchers._numbered import DistinctConfigs, NumberedSearch

    return NumberedSearch(settings.strategy, DistinctConfigs(settings, seed, first))


def learning_searcher(
    model: Model,
    settings: ModelSettings,
    seed: int,
    *,
    objective: Objective,
    max_t: int | None = None,
) -> Searcher:
    """The searcher that suggests what `model` proposes. max_t: epochs of a complete trial."""
    from tuner.search.searchers._learning import LearningSearch

    return LearningSearch(model, settings, seed, objective=objective, max_t=max_t)
