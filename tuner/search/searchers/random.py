"""Random search: independent draws; where the space is finite, each config comes once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tuner.search.searchers import distinct_searcher
from tuner.spec.space.domains import Space
from tuner.spec.space.spaces import find_expected_values, list_domains
from tuner.spec.strategies import SampledSettings

if TYPE_CHECKING:
    from tuner.search.searchers._numbered import DrawConfig


class RandomSettings(SampledSettings):
    """Configs drawn independently from the domains; a finite space is drawn without repeats."""

    skips: ClassVar[bool] = True

    strategy: Literal["random"] = "random"


SETTINGS = RandomSettings


def build(settings: RandomSettings, seed: int, **_: Any) -> Any:
    """The searcher of these settings; config k depends on k, the seed and the settings alone."""
    searcher = distinct_searcher(
        settings, seed, _draw_with_priors(settings.space, seed)
    )
    if settings.points_to_evaluate:
        from tuner.search.searchers._learning import list_first_configs

        searcher.queue_configs(
            filter(settings.can_suggest, list_first_configs(settings, seed))
        )
    return searcher


def _draw_with_priors(space: Space, seed: int) -> DrawConfig | None:
    """What draws config k of a space with priors; None of one without."""
    if not any(getattr(domain, "prior", None) for _, domain in list_domains(space)):
        return None
    import numpy as np

    from tuner.spec.space.encoding import Encoding
    from tuner.spec.space.priors import Priors

    encoding = Encoding(space)
    priors = Priors(encoding)

    def draw(number: int) -> dict[str, Any]:
        rng = np.random.default_rng((seed, number))
        lot = rng.random()
        u_D = rng.random(len(encoding))
        if number:
            return encoding.decode(priors.sample(u_D, number, lot))
        return encoding.complete(find_expected_values(space), u_D)

    return draw
