"""What Ray says of itself in a notebook, of which nothing is shown: progress is ours to tell."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

from tuner import ray_compat

if TYPE_CHECKING:
    from ray.tune import ProgressReporter


def without_widgets() -> None:
    """Let Ray not ask for ipywidgets, which nothing here uses; to be called before it starts."""
    warnings.filterwarnings("ignore", message="IProgress not found")
    logging.getLogger(ray_compat.WIDGETS_LOGGER).setLevel(logging.WARNING)


def reporter() -> ProgressReporter | None:
    """What to give `tune.run`: one that reports nothing, for Ray's would clear away what is shown.

    None outside of a notebook, where Ray takes none and reports nothing by itself.
    """
    from ray.tune import ProgressReporter

    class Silent(ProgressReporter):
        def should_report(self, trials: object, done: bool = False) -> bool:
            return False

    return Silent() if ray_compat.in_notebook() else None
