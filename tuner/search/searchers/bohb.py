"""BOHB's model: kernel densities of the good and the bad configs, at all rungs."""

# N observations, D columns

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings

if TYPE_CHECKING:
    import numpy as np
    from ray.tune.search import Searcher

    from tuner.search.searchers._observations import ModelInput
    from tuner.spec.space.encoding import Array, Encoding

_GOOD = 0.7  # ceil(_GOOD * sqrt(N)) of N trials are the good ones
_WIDENING = 2.0  # of the kernels that candidates are drawn from


class BOHBSettings(ModelSettings):
    """Kernel densities of the good and the bad trials, of whatever age."""

    brackets: ClassVar[int] = 2

    strategy: Literal["bohb"] = "bohb"
    startup: int = Field(
        10, ge=1, description="how many Sobol points are tried before the model is asked"
    )
    random_share: float = Field(
        0.05, ge=0, le=1, description="the share of suggestions that are drawn at random"
    )
    candidates: int = Field(64, ge=1, description="how many draws are compared for a suggestion")


SETTINGS = BOHBSettings


def build(settings: BOHBSettings, seed: int, **context: Any) -> Searcher:
    return learning_searcher(
        BOHB(settings.random_share, settings.candidates), settings, seed, **context
    )


@dataclass(frozen=True, slots=True)
class BOHB:
    """Proposes configs that are likelier among the good trials than among the bad ones.

    After Falkner, Klein and Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at
    Scale" (2018), for asynchronous Hyperband. There the model has the trials of the highest rung
    with enough of them; here all trials, by the loss that they are expected to reach.
    """

    random_share: float
    candidates: int

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """Points, the most promising first; none for a suggestion that is drawn at random."""
        import numpy as np

        from tuner.search.searchers._parzen import Parzen, likelier, scott_widths

        if rng.random() < self.random_share:
            return
        u_ND = data.u_ND[np.argsort(data.loss_N, kind="stable")]
        count = min(math.ceil(_GOOD * math.sqrt(len(u_ND) + data.beyond)), len(u_ND))
        good, bad = (
            Parzen(points_ND, scott_widths(points_ND), encoding)
            for points_ND in (u_ND[:count], np.concatenate([u_ND[count:], data.failed_ND]))
        )
        yield from likelier(good, bad, self.candidates, rng, widening=_WIDENING, favour=data.favour)
