"""Tree-structured Parzen estimators, with hyperopt's adaptive widths; see `_parzen`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from tuner.search.searchers import learning_searcher
from tuner.spec.strategies import ModelSettings

GAMMA, CANDIDATES = 0.1, 64


class HyperOptSettings(ModelSettings):
    """Tree-structured Parzen estimators, on hyperopt's spaces."""

    strategy: Literal["hyperopt"] = "hyperopt"
    startup: int = Field(
        10, ge=1, description="how many random configs are tried before the model is asked"
    )
    gamma: float = Field(
        GAMMA, gt=0, lt=1, description="the share of trials that count as good, at most 25 of them"
    )
    candidates: int = Field(
        CANDIDATES, ge=1, description="how many draws are compared for a suggestion"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_engine(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Accept the specs of earlier versions, which recorded the only engine that is left."""
        return {key: raw[key] for key in raw if (key, raw[key]) != ("engine", "tuner")}


SETTINGS = HyperOptSettings


def build(settings: HyperOptSettings, seed: int, **context: Any) -> Any:
    from tuner.search.searchers._parzen import TPE

    model = TPE(settings.gamma, settings.candidates)
    return learning_searcher(model, settings, seed, **context)
