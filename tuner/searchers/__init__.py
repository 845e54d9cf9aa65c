"""Search strategies by name: settings and a seed become a Ray Tune searcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.tune.search import Searcher

    from tuner.spec import SearchSettings

_BUILDERS = {
    "grid": "tuner.searchers.numbered:GridSearch",
    "random": "tuner.searchers.numbered:RandomSearch",
}


def build_searcher(settings: SearchSettings, seed: int) -> Searcher:
    """The searcher for `settings`; the same seed suggests the same configs."""
    from importlib import import_module

    module, _, name = _BUILDERS[settings.strategy].partition(":")
    build: Any = getattr(import_module(module), name)
    searcher: Searcher = build(settings, seed=seed)
    return searcher
