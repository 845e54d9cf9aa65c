"""Search strategies by name: settings and a seed become a Ray Tune searcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.tune.search import Searcher

    from tuner.spec.experiment import Objective, SearchSettings

_BUILDERS = {
    "grid": "tuner.search.searchers.numbered:GridSearch",
    "random": "tuner.search.searchers.numbered:RandomSearch",
    "hyperopt": "tuner.search.searchers.hyperopt:HyperOptSearch",
    "bayesopt": "tuner.search.searchers.bayesopt:BayesOptSearch",
    "bohb": "tuner.search.searchers.bohb:BOHBSearch",
}


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
    strategies that learn from results; these suggest ahead of time, so that nobody waits for them.
    """
    from importlib import import_module

    from tuner.spec.experiment import ModelSettings

    module, _, name = _BUILDERS[settings.strategy].partition(":")
    build: Any = getattr(import_module(module), name)
    if not isinstance(settings, ModelSettings):
        numbered: Searcher = build(settings, seed=seed)
        return numbered
    from tuner.search.searchers.ahead import AheadSearch

    options = settings.model_dump(exclude={"strategy", "space"})
    told = (objective.metric, objective.mode) if objective else (None, None)
    return AheadSearch(build(settings.space, *told, seed=seed, max_t=max_t, **options), slots=slots)
