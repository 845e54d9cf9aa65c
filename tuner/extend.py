"""What an extension imports, beside `tuner` itself and the contracts of `tuner.testing`.

A searcher: SearchSettings, numbered_searcher, distinct_searcher, learning_searcher, config_at.
A scheduler: SchedulerSettings, stopping_scheduler.
A Learner's declaration: Declaration, PinnedData, NodeData, Settings, Fault.
A tracker: TrackerClient.

These names stay as they are, as those of `tuner` do: one that goes warns for a minor version first.
Every other module may change with any version.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.errors import Fault
    from tuner.reporting.trackers import TrackerClient
    from tuner.search.schedulers import stopping_scheduler
    from tuner.search.searchers import (
        distinct_searcher,
        learning_searcher,
        numbered_searcher,
    )
    from tuner.spec.declaration import Declaration, NodeData, PinnedData
    from tuner.spec.schedulers import SchedulerSettings
    from tuner.spec.settings import Settings
    from tuner.spec.space.spaces import config_at
    from tuner.spec.strategies import SearchSettings

__all__ = [
    "Declaration",
    "Fault",
    "NodeData",
    "PinnedData",
    "SchedulerSettings",
    "SearchSettings",
    "Settings",
    "TrackerClient",
    "config_at",
    "distinct_searcher",
    "learning_searcher",
    "numbered_searcher",
    "stopping_scheduler",
]

_MODULES = {
    "Declaration": "tuner.spec.declaration",
    "Fault": "tuner.errors",
    "NodeData": "tuner.spec.declaration",
    "PinnedData": "tuner.spec.declaration",
    "SchedulerSettings": "tuner.spec.schedulers",
    "SearchSettings": "tuner.spec.strategies",
    "Settings": "tuner.spec.settings",
    "TrackerClient": "tuner.reporting.trackers",
    "config_at": "tuner.spec.space.spaces",
    "distinct_searcher": "tuner.search.searchers",
    "learning_searcher": "tuner.search.searchers",
    "numbered_searcher": "tuner.search.searchers",
    "stopping_scheduler": "tuner.search.schedulers",
}


def __getattr__(name: str) -> Any:
    """A name, from its module: none of them is imported before it is used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tuner.extend' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
