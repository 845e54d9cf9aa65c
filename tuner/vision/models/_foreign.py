"""Foreign networks: the user's, `my_module:MyNet`, and libraries', `torchvision:resnet50`.

A custom network is called with those of `in_channels`, `num_classes` and `image_size` that its
signature has, and with the `model_args`. Names of libraries' networks are read from their sources,
so that a spec is checked without torch. Where torchvision is not installed, `NETWORKS` stand in for
its own: they have the same names, state dicts and outputs. Trials never download weights: several
would do so at once, perhaps on machines without a network.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import Fault, SpecError, build_unknown_fault
from tuner.spec.code import NOT_STANDARD, is_standard
from tuner.spec.loading import load_trainable
from tuner.spec.settings import FaultsError, bad_value
from tuner.trial.failures import format_error
from tuner.vision.models._model import IMAGENET, Arguments, ModelInfo, PixelStats
from tuner.vision.weights import (
    check_file,
    choose_weights,
    find_hub_folder,
    find_timm_files,
)
from tuner.wording import suggest_install

if TYPE_CHECKING:
    from torch import nn

# Arguments that follow from the data set
GIVEN = ("in_channels", "num_classes", "image_size")

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_REGISTERED = re.compile(r"^@register_model\b.*\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
_RGB = 3  # channels for which these networks are made


NETWORKS = (
    "resnet18",
    "resnet34",
    "resnet50",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
)


def describe_custom_model(path: str) -> ModelInfo:
    """The model that `path` names; imports nothing. Raises FaultsError for an invalid path."""
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise bad_value("must be a dotted path, as in 'my_module:MyNet'", path)
    if is_standard(module):
        raise bad_value(NOT_STANDARD, path)
    return ModelInfo(
        partial(_build_custom, path),
        Arguments,
        foreign=True,
        faults=partial(_find_custom_faults, path),
    )


def _build_custom(
    path: str,
    *,
    in_channels: int,
    num_classes: int,
    image_size: int,
    model_args: dict[str, Any],
) -> nn.Module:
    network = load_trainable(path)
    faults = list(find_argument_faults(network, model_args))
    if faults:
        raise SpecError(faults, f"model {path}")
    given = {
        "in_channels": in_channels,
        "num_classes": num_classes,
        "image_size": image_size,
    }
    # Without **kwargs, whose use is unknown
    parameters = _list_parameters(network) or {}
    named = {
        n: v
        for n, v in given.items()
        if n in parameters and parameters[n].kind in _BY_NAME
    }
    model: nn.Module = network(**named, **model_args)
    return model


def _find_custom_faults(path: str, model_args: Mapping[str, Any]) -> Iterator[Fault]:
    """Imports the network; the faults of it or of its arguments."""
    try:
        network = load_trainable(path)
    except FaultsError as error:
        yield from (fault.add_prefix("model") for fault in error.faults)
    except Exception as error:  # the user's module may raise any type
        yield Fault("model", f"cannot be imported ({format_error(error)})", path)
    else:
        yield from find_argument_faults(network, model_args)


def find_argument_faults(
    network: Any, model_args: Mapping[str, Any]
) -> Iterator[Fault]:
    """Why `network` cannot be called with these arguments and those that follow from the data."""
    if not callable(network):
        yield Fault(
            "model", "must be a class or a function that builds a network", network
        )
        return
    parameters = _list_parameters(network)
    if parameters is None:  # a signature is not available
        return
    named = {name for name, p in parameters.items() if p.kind in _BY_NAME}
    own = named - {*GIVEN}
    takes_any = any(
        parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    for name in model_args:
        if name in GIVEN:
            yield Fault(
                f"model_args.{name}", "follows from the data set, so it cannot be set"
            )
        elif name not in named and not takes_any:
            fault = build_unknown_fault(
                f"model_args.{name}", f"argument of {network.__name__}", name, own
            )
            yield (
                fault
                if own
                else Fault(fault.key, f"{network.__name__} takes no arguments")
            )
    for name, parameter in parameters.items():
        required = parameter.default is Parameter.empty and parameter.kind in _BY_NAME
        if required and name not in GIVEN and name not in model_args:
            yield Fault(
                f"model_args.{name}", f"is required: {network.__name__} has no default"
            )
        if (
            parameter.kind is Parameter.POSITIONAL_ONLY
            and parameter.default is Parameter.empty
        ):
            rule = (
                f"{network.__name__} must take its arguments by name, and not {name!r}"
            )
            yield Fault("model", rule)


def _list_parameters(network: Callable[..., Any]) -> Mapping[str, Parameter] | None:
    try:
        return inspect.signature(network).parameters
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Library:
    """A package of networks. build: called as a `ModelInfo`'s, after the network's name.

    weights: called with a network's name and the SHA-256 of the file that is meant, or None;
    returns (the library's file of its pretrained weights or None, the command that fetches it).
    pixel_stats: of a network's weights. fixed: arguments that `model_args` cannot set, None for
    all.
    """

    build: Callable[..., nn.Module]
    weights: Callable[[str, str | None], tuple[Path | None, str]]
    pixel_stats: Callable[[str], PixelStats]
    fixed: tuple[str, ...] | None


def describe_library_model(package: str, name: str) -> ModelInfo:
    """The model `name` of one of `LIBRARIES`. Raises FaultsError if it is not available."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations or spec.origin is None:
        if package != "torchvision" or name not in NETWORKS:
            rule = f"needs a package: {suggest_install(package)}"
            raise bad_value(rule, f"{package}:{name}")
        library = replace(LIBRARIES[package], build=_build_shipped, fixed=None)
    else:
        library = LIBRARIES[package]
        names = _list_networks(Path(spec.origin).parent / "models")
        if name.partition(".")[0] not in names or (
            package != "timm" and name not in names
        ):
            fault = build_unknown_fault("", f"network of {package}", name, names)
            raise bad_value(fault.rule)  # there are hundreds of choices
    return ModelInfo(
        partial(library.build, name),
        Arguments,
        foreign=True,
        faults=partial(_find_library_faults, library),
        pretrained=partial(_find_weights, package, name),
        pixel_stats=partial(library.pixel_stats, name),
    )


@cache
def _list_networks(folder: Path) -> frozenset[str]:
    """The networks that the modules of `folder` register."""
    texts = (path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    return frozenset(name for text in texts for name in _REGISTERED.findall(text))


def _find_library_faults(
    library: Library, model_args: Mapping[str, Any]
) -> Iterator[Fault]:
    for name in sorted(model_args):
        if library.fixed is None:
            yield Fault(
                f"model_args.{name}",
                f"needs a package: {suggest_install('torchvision')}",
            )
        elif name in library.fixed:
            yield Fault(
                f"model_args.{name}", "is set by other settings, or by the data set"
            )


def _find_weights(package: str, name: str, sha256: str | None) -> Path:
    return check_file(f"{package}:{name}", *LIBRARIES[package].weights(name, sha256))


def _build_shipped(
    name: str, *, in_channels: int, num_classes: int, **_: object
) -> nn.Module:
    from tuner.vision.models._torchvisions import build_network

    return _adapt_channels(build_network(name, num_classes), in_channels)


def _build_torchvision(
    name: str,
    *,
    in_channels: int,
    num_classes: int,
    model_args: dict[str, Any],
    **_: object,
) -> nn.Module:
    from torchvision.models import get_model

    model: nn.Module = get_model(
        name, weights=None, num_classes=num_classes, **model_args
    )
    return _adapt_channels(model, in_channels)


def _adapt_channels(model: nn.Module, in_channels: int) -> nn.Module:
    """`model`, made for colour images, with a first convolution for these channels."""
    from torch import nn

    if in_channels == _RGB:
        return model
    name, old = next(
        (n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d)
    )
    names = ("out_channels", "kernel_size", "stride", "padding", "dilation")
    sizes: dict[str, Any] = {each: getattr(old, each) for each in names}
    model.set_submodule(
        name, nn.Conv2d(in_channels, **sizes, bias=old.bias is not None)
    )
    return model


def _find_torchvision_weights(name: str, sha256: str | None) -> tuple[Path | None, str]:
    if weights := choose_weights(f"torchvision:{name}", sha256):
        return weights.path, weights.fetch_command
    from torchvision.models import get_model_weights

    file = get_model_weights(name).DEFAULT.url.rpartition("/")[2]
    call = f"torchvision.models.get_model({name!r}, weights='DEFAULT')"
    return find_hub_folder() / file, f'python -c "import torchvision; {call}"'


def _build_timm(
    name: str,
    *,
    in_channels: int,
    num_classes: int,
    model_args: dict[str, Any],
    **_: object,
) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(
        name,
        pretrained=False,
        in_chans=in_channels,
        num_classes=num_classes,
        **model_args,
    )
    return model


def _find_timm_weights(name: str, _sha256: str | None) -> tuple[Path | None, str]:
    import timm
    from huggingface_hub import try_to_load_from_cache

    fetch = f'python -c "import timm; timm.create_model({name!r}, pretrained=True)"'
    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id:
        return None, fetch
    for file in filter(
        None, (config.hf_hub_filename, "model.safetensors", "pytorch_model.bin")
    ):
        path = try_to_load_from_cache(config.hf_hub_id, file)
        if isinstance(path, str):
            return Path(path), fetch
    # Of another node
    return find_timm_files().get(config.hf_hub_id.removeprefix("timm/")), fetch


def _read_timm_stats(name: str) -> PixelStats:
    import timm

    config = timm.get_pretrained_cfg(name)
    return (tuple(config.mean), tuple(config.std)) if config else IMAGENET


LIBRARIES = {
    "torchvision": Library(
        _build_torchvision,
        _find_torchvision_weights,
        lambda name: IMAGENET,
        ("weights", "num_classes"),
    ),
    "timm": Library(
        _build_timm,
        _find_timm_weights,
        _read_timm_stats,
        ("pretrained", "in_chans", "num_classes", "checkpoint_path"),
    ),
}
