"""The models and data sets that ship, by name, and the metrics of the image classifier.

Nothing here imports torch, so that a spec is checked against it in milliseconds. `model_info` is
how everything else learns of a model, be it one that ships or one from elsewhere.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from tuner.classifier import datasets, models
from tuner.classifier.datasets._dataset import DatasetInfo
from tuner.classifier.models._libraries import LIBRARIES, library_model
from tuner.classifier.models._model import ModelInfo
from tuner.classifier.models._own import own_model
from tuner.errors import Fault, unknown
from tuner.settings_base import FaultsError

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


_ELSEWHERE = ("my_module:MyNet", *(f"{library}:NAME" for library in LIBRARIES))

MODELS: dict[str, ModelInfo] = _declared(models, "MODEL")
DATASETS: dict[str, DatasetInfo] = _declared(datasets, "DATASET")


def model_info(reference: str) -> ModelInfo:
    """The model that `reference`, the setting `model`, names: that ships, or is from elsewhere.

    Imports no network. Raises FaultsError, its key relative to the setting, for what names none.
    """
    if reference in MODELS:
        return MODELS[reference]
    scheme, colon, name = reference.partition(":")
    if colon:
        return library_model(scheme, name) if scheme in LIBRARIES else own_model(reference)
    fault = unknown("", "model", reference, MODELS)
    raise FaultsError(Fault("", fault.rule, None, (*fault.choices, *_ELSEWHERE)))
