"""Tree-structured Parzen estimators, with hyperopt's adaptive widths."""

# N observations, D columns

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings

if TYPE_CHECKING:
    import numpy as np
    from ray.tune.search import Searcher

    from tuner.search.searchers._observations import ModelInput
    from tuner.spec.space.encoding import Array, Encoding

_GAMMA, _CANDIDATES = 0.1, 64
_MAX_GOOD = 25  # as in hyperopt
_LEAST_WEIGHT = 1e-3
_WIDENING = 2.0  # of the kernels that candidates are drawn from, once trials are stopped early


class HyperOptSettings(ModelSettings):
    """Tree-structured Parzen estimators, on hyperopt's spaces."""

    strategy: Literal["hyperopt"] = "hyperopt"
    startup: int = Field(
        10, ge=1, description="how many random configs are tried before the model is asked"
    )
    gamma: float = Field(
        _GAMMA, gt=0, lt=1, description="the share of trials that count as good, at most 25 of them"
    )
    candidates: int = Field(
        _CANDIDATES, ge=1, description="how many draws are compared for a suggestion"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_engine(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Accept the specs of earlier versions, which recorded the only engine that is left."""
        return {key: raw[key] for key in raw if (key, raw[key]) != ("engine", "tuner")}


SETTINGS = HyperOptSettings


def build(settings: HyperOptSettings, seed: int, **context: Any) -> Searcher:
    model = TPE(settings.gamma, settings.candidates)
    return learning_searcher(model, settings, seed, **context)


@dataclass(frozen=True, slots=True)
class TPE:
    """Proposes configs that are likelier among the good trials than among the others.

    Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011), with kernels over all
    columns at once (Falkner et al., BOHB, 2018) and good trials weighted by how much better they
    are than the others (Song et al., "A General Recipe for Likelihood-free Bayesian Optimization",
    2022; Watanabe, "Tree-Structured Parzen Estimator", 2023, compares these choices). hyperopt's
    `tpe.suggest` models each hyperparameter separately.

    Once trials are stopped early, most losses are expectations, too uncertain to estimate widths
    from: these then follow from the number of trials, and candidates are drawn from wider kernels,
    as in BOHB. Failed trials and running ones without a report count among the others.
    """

    gamma: float = _GAMMA
    candidates: int = _CANDIDATES

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        import numpy as np

        from tuner.search.searchers import _parzen as parzen

        order = np.argsort(data.loss_N, kind="stable")
        count = min(math.ceil(self.gamma * (len(order) + data.beyond)), _MAX_GOOD, len(order))
        good_ND, rest_ND = data.u_ND[order[:count]], data.u_ND[order[count:]]
        other_ND = np.concatenate([rest_ND, data.failed_ND, data.pending_PD])
        weight_N = _improvements(data.loss_N[order], count)
        if data.stops_early:
            good_widths = other_widths = parzen.scott_widths
            widening = _WIDENING
        else:
            good_widths, other_widths = parzen.neighbour_widths, parzen.adaptive_widths
            widening = 1.0
        good = parzen.Parzen(good_ND, good_widths(good_ND), encoding, weight_N)
        other = parzen.Parzen(other_ND, other_widths(other_ND), encoding)
        yield from parzen.likelier(
            good, other, self.candidates, rng, widening=widening, favour=data.favour
        )


def _improvements(loss_N: Array, count: int) -> Array:
    """How far each of the `count` least losses is below the rest, 1 on average."""
    import numpy as np

    below = loss_N[min(count, len(loss_N) - 1)] - loss_N[:count]
    most = below.max(initial=0.0)
    if not most > 0 or not math.isfinite(most):
        return np.ones(count)
    weight = below / most
    return np.asarray(np.maximum(weight / weight.mean(), _LEAST_WEIGHT))
