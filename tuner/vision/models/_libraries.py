"""Networks of libraries: `torchvision:resnet50`, `timm:NAME`.

Nothing is imported until a network is built. Names are read from the libraries' sources, so that a
spec is checked without torch. Trials never download weights: several would do so at once, perhaps
on machines without a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import CheckpointError, Fault, unknown
from tuner.settings import FaultsError
from tuner.vision.models._model import Arguments, ModelInfo
from tuner.wording import install

if TYPE_CHECKING:
    from torch import nn

_REGISTERED = re.compile(r"^@register_model\b.*\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
_RGB = 3  # channels for which these networks are made


@dataclass(frozen=True, slots=True)
class Library:
    """A package of networks. build: called as a `ModelInfo`'s, after the network's name.

    weights: returns (the library's file of a network's pretrained weights or None, the command that
    fetches it). fixed: arguments that `model_args` cannot set.
    """

    build: Callable[..., nn.Module]
    weights: Callable[[str], tuple[Path | None, str]]
    fixed: tuple[str, ...]


def library_model(package: str, name: str) -> ModelInfo:
    """The model `name` of one of `LIBRARIES`.

    Raises FaultsError if the package is not installed, or has no network of that name.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations or spec.origin is None:
        raise FaultsError(Fault("", f"needs a package: {install(package)}", f"{package}:{name}"))
    names = _names(Path(spec.origin).parent / "models")
    if name.partition(".")[0] not in names or (package != "timm" and name not in names):
        fault = unknown("", f"network of {package}", name, names)
        raise FaultsError(Fault("", fault.rule))  # there are hundreds of choices
    library = LIBRARIES[package]
    return ModelInfo(
        partial(library.build, name),
        Arguments,
        foreign=True,
        faults=partial(_faults, library),
        pretrained=partial(_pretrained, package, name),
    )


@cache
def _names(folder: Path) -> frozenset[str]:
    """The networks that the modules of `folder` register."""
    texts = (path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    return frozenset(name for text in texts for name in _REGISTERED.findall(text))


def _faults(library: Library, model_args: Mapping[str, Any]) -> Iterator[Fault]:
    for name in sorted(model_args.keys() & {*library.fixed}):
        yield Fault(f"model_args.{name}", "is set by other settings, or by the data set")


def _pretrained(package: str, name: str) -> Path:
    path, fetch = LIBRARIES[package].weights(name)
    if path is None or not path.is_file():
        where = f" in {path}" if path else ""
        raise CheckpointError(
            f"the pretrained weights of {package}:{name} are not here{where}, and no trial "
            f"downloads them; fetch them with: {fetch}"
        )
    return path


def _build_torchvision(
    name: str, *, in_channels: int, num_classes: int, image_size: int, model_args: dict[str, Any]
) -> nn.Module:
    from torchvision.models import get_model

    model: nn.Module = get_model(name, weights=None, num_classes=num_classes, **model_args)
    if in_channels != _RGB:
        _adapt_first_convolution(model, in_channels)
    return model


def _adapt_first_convolution(model: nn.Module, in_channels: int) -> None:
    """Replace the first convolution by one for images of `in_channels` channels."""
    from torch import nn

    name, old = next((n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d))
    names = ("out_channels", "kernel_size", "stride", "padding", "dilation")
    sizes: dict[str, Any] = {each: getattr(old, each) for each in names}
    model.set_submodule(name, nn.Conv2d(in_channels, **sizes, bias=old.bias is not None))


def _torchvision_weights(name: str) -> tuple[Path | None, str]:
    import torch
    from torchvision.models import get_model_weights

    file = get_model_weights(name).DEFAULT.url.rpartition("/")[2]
    call = f"torchvision.models.get_model({name!r}, weights='DEFAULT')"
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    return folder / file, f'python -c "import torchvision; {call}"'


def _build_timm(
    name: str, *, in_channels: int, num_classes: int, image_size: int, model_args: dict[str, Any]
) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(
        name, pretrained=False, in_chans=in_channels, num_classes=num_classes, **model_args
    )
    return model


def _timm_weights(name: str) -> tuple[Path | None, str]:
    import timm
    from huggingface_hub import try_to_load_from_cache

    fetch = f'python -c "import timm; timm.create_model({name!r}, pretrained=True)"'
    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id:
        return None, fetch
    for file in filter(None, (config.hf_hub_filename, "model.safetensors", "pytorch_model.bin")):
        found = try_to_load_from_cache(config.hf_hub_id, file)
        if isinstance(found, str):
            return Path(found), fetch
    return None, fetch


LIBRARIES = {
    "torchvision": Library(_build_torchvision, _torchvision_weights, ("weights", "num_classes")),
    "timm": Library(
        _build_timm, _timm_weights, ("pretrained", "in_chans", "num_classes", "checkpoint_path")
    ),
}
