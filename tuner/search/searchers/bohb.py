"""BOHB: kernel densities of the good and the bad configs, at all rungs; see `_parzen`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings


class BOHBSettings(ModelSettings):
    """Kernel densities of the good and the bad trials, of any age."""

    brackets: ClassVar[int] = 2

    strategy: Literal["bohb"] = "bohb"
    startup: int = Field(
        10,
        ge=1,
        description="how many Sobol points are tried before the model is asked",
    )
    random_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="the share of suggestions that are drawn at random",
    )
    candidates: int = Field(
        64, ge=1, description="how many draws are compared for a suggestion"
    )


SETTINGS = BOHBSettings


def build(settings: BOHBSettings, seed: int, **context: Any) -> Any:
    from tuner.search.searchers._parzen import BOHB

    model = BOHB(settings.random_share, settings.candidates)
    return learning_searcher(model, settings, seed, **context)
