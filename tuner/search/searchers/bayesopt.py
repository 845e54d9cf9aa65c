"""Bayesian optimisation; the models are in `_bayesopt` and `_library_gp` beside."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings


class BayesOptSettings(ModelSettings):
    """A Gaussian process and expected improvement."""

    strategy: Literal["bayesopt"] = "bayesopt"
    engine: Literal["tuner", "bayesian-optimization"] = Field(
        "tuner",
        description="our own model, or the package bayesian-optimization with its defaults",
    )
    startup: int = Field(
        8, ge=2, description="how many Sobol points are tried before the model is asked"
    )


SETTINGS = BayesOptSettings


def build(settings: BayesOptSettings, seed: int, **context: Any) -> Any:
    if settings.engine == "bayesian-optimization":
        from tuner.search.searchers._library_gp import LibraryGP

        return learning_searcher(LibraryGP(), settings, seed, **context)
    from tuner.search.searchers._bayesopt import BayesOpt

    return learning_searcher(BayesOpt(), settings, seed, **context)
