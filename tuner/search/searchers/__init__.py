"""Searchers suggest configs. Each module is a strategy, or `_machinery`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.tune.search import Searcher

    from tuner.search.searchers._learning import Model
    from tuner.search.searchers._numbered import NumberedSearch
    from tuner.spec.sections import Objective
    from tuner.spec.space.domains import Space
    from tuner.spec.strategies import ModelSettings, SearchSettings


def numbered_searcher(
    strategy: str,
    config_of: Callable[[int], dict[str, Any] | None],
    seeds: Sequence[int | None] = (None,),
    forbid: Sequence[str] = (),
) -> Searcher:
    """The searcher whose config k depends on k alone; see `NumberedSearch`."""
    from tuner.search.searchers._numbered import NumberedSearch

    return NumberedSearch(strategy, config_of, seeds, forbid)


def distinct_searcher(
    settings: SearchSettings, seed: int, first: Callable[[int], dict[str, Any]] | None = None
) -> NumberedSearch:
    """The searcher that tries `first(k)` as config k, else draws; see `DistinctConfigs`."""
    from tuner.search.searchers._numbered import DistinctConfigs, NumberedSearch

    return NumberedSearch(settings.strategy, DistinctConfigs(settings, seed, first))


def draw_with_priors(space: Space, seed: int) -> Callable[[int], dict[str, Any]] | None:
    """What draws config k of a space with priors; None of one without."""
    from tuner.spec.space.spaces import find_expected_values, list_domains

    if not any(getattr(domain, "prior", None) for _, domain in list_domains(space)):
        return None
    import numpy as np

    from tuner.spec.space.encoding import Encoding
    from tuner.spec.space.priors import Priors

    encoding = Encoding(space)
    priors = Priors(encoding)

    def draw(number: int) -> dict[str, Any]:
        rng = np.random.default_rng((seed, number))
        lot = rng.random()
        u_D = rng.random(len(encoding))
        if number:
            return encoding.decode(priors.sample(u_D, number, lot))
        return encoding.complete(find_expected_values(space), u_D)

    return draw


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
