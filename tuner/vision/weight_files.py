"""The files of initial weights: where they are, their digests, their tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from tuner.errors import CheckpointError, translate_error
from tuner.experiment.files import compute_sha256
from tuner.trial.checkpoints import load_state
from tuner.vision.model_catalog import find_pretrained_files
from tuner.vision.models._model import ModelInfo
from tuner.vision.settings import ClassifierSettings
from tuner.vision.weights import EXPORTED

_INNER = ("model", "state_dict")  # the keys under which trainers save the weights


def load_weights(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a safetensors file, an export, or a state dict. Raises CheckpointError."""
    path = Path(path).expanduser()
    if path.is_dir():
        path = path / EXPORTED
    if not path.is_file():
        raise CheckpointError(f"start_from {path} is no file")
    state: Mapping[str, object]
    if path.suffix == ".safetensors":
        state = load_safetensors(path, f"start_from {path}")
    else:
        state = load_state(path, None, what="start_from")
    for key in _INNER:
        inner = state.get(key)
        if isinstance(inner, Mapping):
            state = inner
    weights = {
        name: value for name, value in state.items() if isinstance(value, Tensor)
    }
    if not weights:
        raise CheckpointError(f"start_from {path} holds no tensors by name")
    return weights


def describe_source(settings: ClassifierSettings, info: ModelInfo) -> str | None:
    """The file or folder of the initial weights, or None. Raises CheckpointError.

    Of a library's files, it is the one whose SHA-256 `settings` record. A network with parts has
    several, which are named one after the other.
    """
    return ", ".join(map(str, find_weight_files(settings, info))) or None


def find_weight_files(settings: ClassifierSettings, info: ModelInfo) -> list[Path]:
    """The files of the initial weights, one for each part of the network."""
    if settings.pretrained and (
        files := find_pretrained_files(info, find_recorded_digest(settings))
    ):
        return files
    return (
        [] if settings.start_from is None else [Path(settings.start_from).expanduser()]
    )


def find_recorded_digest(settings: ClassifierSettings) -> str | None:
    """The SHA-256 of the initial weights when the search began, if it is recorded."""
    return settings.weights_sha256.get(choose_weights_key(settings))


def choose_weights_key(settings: ClassifierSettings) -> str:
    """The key of the initial weights in `weights_sha256`."""
    return settings.model if settings.pretrained else str(settings.start_from)


def load_safetensors(path: Path, what: str) -> dict[str, Tensor]:
    """The tensors by name in a safetensors file; CheckpointError, with `what`, if it is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    damaged = (SafetensorError, OSError, RuntimeError, ValueError, KeyError)
    with translate_error(CheckpointError, f"{what} cannot be loaded", of=damaged):
        return dict(load_file(path))


def compute_backbone_digest(settings: ClassifierSettings, info: ModelInfo) -> str:
    """The sha256 of the file of the initial weights, or of the digests of several files.

    Raises CheckpointError if one is missing.
    """
    digests = [_compute_digest(file) for file in find_weight_files(settings, info)]
    assert digests  # as the settings' faults have it
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _compute_digest(path: Path) -> str:
    path = (path / EXPORTED if path.is_dir() else path).resolve()  # caches hold links
    with translate_error(
        CheckpointError, f"start_from {path} cannot be read", of=OSError
    ):
        stat = path.stat()
    return _hash_file(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _hash_file(path: Path, _changed: int, _size: int) -> str:
    return compute_sha256(path)
