"""Bayesian optimisation; the model is in `_bayesopt` beside, the process in `_gaussian`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings

if TYPE_CHECKING:
    from ray.tune.search import Searcher


class BayesOptSettings(ModelSettings):
    """A Gaussian process and expected improvement.

    startup: Sobol points before the model is asked.
    """

    strategy: Literal["bayesopt"] = "bayesopt"
    startup: int = Field(8, ge=2)


SETTINGS = BayesOptSettings


def build(settings: BayesOptSettings, seed: int, **context: Any) -> Searcher:
    """The searcher of these settings."""
    from tuner.search.searchers._bayesopt import BayesOpt

    return learning_searcher(BayesOpt(), settings, seed, **context)
