"""Searches of the strategies that ship, and of models that only a test has."""

from typing import Any

from tuner.search.searchers._learning import LearningSearch
from tuner.spec.sections import Objective
from tuner.spec.strategies import SEARCHERS, ModelSettings


def search_of(
    strategy: str,
    space: Any,
    *,
    seed: int = 0,
    metric: str = "loss",
    mode: Any = "min",
    max_t: int | None = None,
    limits: tuple[str, ...] = (),
    **settings: Any,
) -> Any:
    """A search of a strategy that ships."""
    read = SEARCHERS.load_settings(strategy)(strategy=strategy, space=space, **settings)
    return read.build(
        seed, objective=Objective(metric=metric, mode=mode, limits=limits), max_t=max_t
    )


class ModelSearch(LearningSearch):
    """A search whose model proposes what a test needs."""

    def __init__(
        self,
        model: Any,
        space: Any,
        *,
        seed: int = 0,
        mode: Any = "min",
        limits: tuple[str, ...] = (),
        **settings: Any,
    ) -> None:
        settings = {"strategy": "test", "space": space, **settings}
        objective = Objective(metric="loss", mode=mode, limits=limits)
        super().__init__(model, ModelSettings(**settings), seed, objective=objective)
