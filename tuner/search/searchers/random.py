"""Random search: independent draws; where the space is finite, each config comes once."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from tuner.search.searchers import distinct_searcher, draw_with_priors
from tuner.spec.strategies import SampledSettings


class RandomSettings(SampledSettings):
    """Configs drawn independently from the domains; a finite space is drawn without repeats."""

    skips: ClassVar[bool] = True

    strategy: Literal["random"] = "random"


SETTINGS = RandomSettings


def build(settings: RandomSettings, seed: int, **_: Any) -> Any:
    """The searcher of these settings; config k depends on k, the seed and the settings alone."""
    searcher = distinct_searcher(settings, seed, draw_with_priors(settings.space, seed))
    if settings.points_to_evaluate:
        from tuner.search.searchers._learning import list_first_configs

        searcher.queue_configs(filter(settings.can_suggest, list_first_configs(settings, seed)))
    return searcher
