"""tuner: hyperparameter search for PyTorch image classifiers, on Ray Tune.

    from tuner import ExperimentSpec, load_model, load_results, run_experiment

The names are imported when they are first used: `import tuner` alone is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.export.read import load_model
    from tuner.export.write import export as export_model
    from tuner.results.results import Results, load_results
    from tuner.search.run import run_experiment
    from tuner.spec.experiment import ExperimentSpec

__all__ = [
    "ExperimentSpec",
    "Results",
    "export_model",
    "load_model",
    "load_results",
    "run_experiment",
]

_HOMES = {
    "ExperimentSpec": "tuner.spec.experiment",
    "Results": "tuner.results.results",
    "export_model": "tuner.export.write:export",
    "load_model": "tuner.export.read",
    "load_results": "tuner.results.results",
    "run_experiment": "tuner.search.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuner' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute or name)
