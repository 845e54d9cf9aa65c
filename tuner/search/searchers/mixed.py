"""The suggestions of bayesopt and of hyperopt in turns, see `_learning`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tuner.search.searchers import learning_searcher
from tuner.search.searchers.hyperopt import CANDIDATES, GAMMA
from tuner.spec.strategies import ModelSettings


class MixedSettings(ModelSettings):
    """Each suggestion by the model of bayesopt or by that of hyperopt; a lot decides."""

    strategy: Literal["mixed"] = "mixed"
    startup: int = Field(
        8,
        ge=2,
        description="how many Sobol points are tried before the models are asked",
    )


SETTINGS = MixedSettings


def build(settings: MixedSettings, seed: int, **context: Any) -> Any:
    from tuner.search.searchers._bayesopt import BayesOpt
    from tuner.search.searchers._learning import Mixed
    from tuner.search.searchers._parzen import TPE

    return learning_searcher(
        Mixed((BayesOpt(), TPE(GAMMA, CANDIDATES))), settings, seed, **context
    )
