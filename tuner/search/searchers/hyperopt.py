"""Tree-structured Parzen estimators; the models are in `_parzen` and `_library_tpe` beside."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tuner.errors import Fault
from tuner.search.searchers import learning_searcher
from tuner.spec.settings import FaultsError
from tuner.spec.strategies import ModelSettings

GAMMA = 0.1
CANDIDATES = 64


class HyperOptSettings(ModelSettings):
    """Tree-structured Parzen estimators, on hyperopt's spaces."""

    strategy: Literal["hyperopt"] = "hyperopt"
    engine: Literal["tuner", "hyperopt"] = Field(
        "tuner",
        description="our own model, or hyperopt's `tpe.suggest` with its defaults",
    )
    startup: int = Field(
        10,
        ge=1,
        description="how many random configs are tried before the model is asked",
    )
    gamma: float = Field(
        GAMMA,
        gt=0,
        lt=1,
        description="with engine tuner, the share of trials that count as good, at most 25 of them",
    )
    candidates: int = Field(
        CANDIDATES,
        ge=1,
        description="with engine tuner, how many draws are compared for a suggestion",
    )

    @model_validator(mode="after")
    def _check_engine_settings(self) -> Self:
        if self.engine == "tuner":
            return self
        rule = f"is not used by engine {self.engine}, which has its own"
        ours = {"gamma": GAMMA, "candidates": CANDIDATES}
        unused = {
            name: getattr(self, name)
            for name in ours
            if getattr(self, name) != ours[name]
        }
        if unused:
            raise FaultsError(
                *(Fault(name, rule, value) for name, value in unused.items())
            )
        return self


SETTINGS = HyperOptSettings


def build(settings: HyperOptSettings, seed: int, **context: Any) -> Any:
    if settings.engine == "hyperopt":
        from tuner.search.searchers._library_tpe import LibraryTPE

        return learning_searcher(LibraryTPE(), settings, seed, **context)
    from tuner.search.searchers._parzen import TPE

    model = TPE(settings.gamma, settings.candidates)
    return learning_searcher(model, settings, seed, **context)
