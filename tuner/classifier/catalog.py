"""The models and data sets that ship, by name, and the metrics of the image classifier.

Nothing here imports torch, so that a spec is checked against it in milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from tuner.classifier import datasets, models
from tuner.classifier.datasets._dataset import DatasetInfo
from tuner.classifier.models._model import ModelInfo

METRICS = (
    "train_loss",
    "val_loss",
    "val_accuracy",
    "lr",
    "micro_batch_size",
    "images_per_s",
    "epoch_s",
)


def _declared(package: ModuleType, variable: str) -> dict[str, Any]:
    """The `variable` of every module of `package` without an underscore, by the module's name."""
    names = [module.name for module in iter_modules(package.__path__) if module.name[0] != "_"]
    return {name: getattr(import_module(f"{package.__name__}.{name}"), variable) for name in names}


MODELS: dict[str, ModelInfo] = _declared(models, "MODEL")
DATASETS: dict[str, DatasetInfo] = _declared(datasets, "DATASET")
