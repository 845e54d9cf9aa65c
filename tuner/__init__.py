"""tuner: hyperparameter search for PyTorch image classifiers, on Ray Tune.

    from tuner import ExperimentSpec, load_model, load_results, run_experiment

The names are imported when they are first used: `import tuner` alone is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.driver import run_experiment
    from tuner.exported import load_model
    from tuner.results import Results, load_results
    from tuner.spec import ExperimentSpec

__all__ = ["ExperimentSpec", "Results", "load_model", "load_results", "run_experiment"]

_HOMES = {
    "ExperimentSpec": "tuner.spec",
    "Results": "tuner.results",
    "load_model": "tuner.exported",
    "load_results": "tuner.results",
    "run_experiment": "tuner.driver",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuner' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
