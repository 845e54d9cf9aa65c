"""The suggestions of bayesopt and of hyperopt in turns, so that the search is not lost with one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings

if TYPE_CHECKING:
    import numpy as np
    from ray.tune.search import Searcher

    from tuner.search.searchers._learning import Model
    from tuner.search.searchers._observations import ModelInput
    from tuner.spec.space.encoding import Array, Encoding


class MixedSettings(ModelSettings):
    """Each suggestion by the model of bayesopt or by that of hyperopt; a lot decides."""

    strategy: Literal["mixed"] = "mixed"
    startup: int = Field(
        8, ge=2, description="how many Sobol points are tried before the models are asked"
    )


SETTINGS = MixedSettings


def build(settings: MixedSettings, seed: int, **context: Any) -> Searcher:
    from tuner.search.searchers._bayesopt import BayesOpt
    from tuner.search.searchers.hyperopt import TPE

    return learning_searcher(Mixed((BayesOpt(), TPE())), settings, seed, **context)


class Mixed:
    """Proposes what one of its models does, each as often."""

    def __init__(self, models: tuple[Model, ...]) -> None:
        self._models = models

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        return self._models[int(rng.integers(len(self._models)))].propose(data, encoding, rng)
