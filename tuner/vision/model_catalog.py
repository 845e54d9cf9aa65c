"""The models that ship, by name, and those of the user and of libraries.

Nothing here imports torch, so that a spec is checked in milliseconds.
"""

from __future__ import annotations

from pathlib import Path

from tuner.errors import CheckpointError, build_unknown_fault
from tuner.spec.loading import collect_declarations
from tuner.spec.settings import FaultsError
from tuner.vision import models
from tuner.vision.models._foreign import (
    LIBRARIES,
    describe_custom_model,
    describe_library_model,
)
from tuner.vision.models._model import ModelInfo

MODELS: dict[str, ModelInfo] = {
    name: info
    for declared in collect_declarations(models, "MODELS").values()
    for name, info in declared.items()
}


def is_own_network(reference: str) -> bool:
    """Whether a model is the user's code: my_module:MyNet."""
    scheme, colon, _ = reference.partition(":")
    return bool(colon) and scheme not in LIBRARIES


def find_model_info(reference: str) -> ModelInfo:
    """The model that the setting `model` names; imports no network. Raises FaultsError."""
    if reference in MODELS:
        return MODELS[reference]
    scheme, colon, name = reference.partition(":")
    if colon:
        return (
            describe_library_model(scheme, name)
            if scheme in LIBRARIES
            else describe_custom_model(reference)
        )
    elsewhere = ("my_module:MyNet", *(f"{library}:NAME" for library in LIBRARIES))
    raise FaultsError(
        build_unknown_fault("", "model", reference, (*MODELS, *elsewhere))
    )


def has_weights(reference: str) -> bool:
    """Whether a library's pretrained weights for the model are on this machine."""
    try:
        files = find_pretrained_files(find_model_info(reference))
    except (FaultsError, CheckpointError):
        return False
    return bool(files) and all(file.is_file() for file in files)


def find_pretrained_files(info: ModelInfo, sha256: str | None = None) -> list[Path]:
    """The files of a library's weights, one for each of the model's parts; none if there are none.

    sha256: of the file that is meant, or None for any. Raises CheckpointError if one is missing.
    """
    networks = [find_model_info(part) for part in info.parts] or [info]
    return [network.pretrained(sha256) for network in networks if network.pretrained]
