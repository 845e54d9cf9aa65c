"""Random search: independent draws; where the space is finite, each config comes once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tuner.search.searchers import distinct_searcher, draw_with_priors
from tuner.spec.strategies import SearchSettings

if TYPE_CHECKING:
    from ray.tune.search import Searcher


class RandomSettings(SearchSettings):
    """Configs drawn independently from the domains; a finite space is drawn without repeats."""

    skips: ClassVar[bool] = True

    strategy: Literal["random"] = "random"


SETTINGS = RandomSettings


def build(settings: RandomSettings, seed: int, **_: Any) -> Searcher:
    """The searcher of these settings; config k depends on k, the seed and the space alone."""
    return distinct_searcher(settings, seed, draw_with_priors(settings.space, seed))
