"""Transfer learning: weights of an earlier training, a new head, frozen layers."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tuner.errors import CheckpointError, Fault, SpecError, translate_error
from tuner.experiment.files import compute_sha256
from tuner.trial.checkpoints import load_state
from tuner.trial.failures import format_error, is_out_of_memory
from tuner.vision.blueprint import Blueprint
from tuner.vision.catalog import MODELS, find_model_info, find_pretrained_files
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.epochs import seed_generators
from tuner.vision.models._foreign import NETWORKS
from tuner.vision.models._model import IMAGENET, ModelInfo, PixelStats
from tuner.vision.norms import BATCH_NORMS
from tuner.vision.settings import (
    ClassifierSettings,
    GivenStats,
    build_settings_error,
    find_weight_stats,
)
from tuner.vision.weights import EXPORTED
from tuner.wording import format_amount, summarize_names

BACKBONE = "backbone_sha256"  # the key in the state of a head that trained alone

_INNER = ("model", "state_dict")  # the keys under which trainers save the weights
_COUNT = "num_batches_tracked"  # of BatchNorm; older files lack it, and it has no effect
_DIGITS = 8  # of a SHA-256 that a message shows
_TRIED = 2  # images on which a head is tried
_MOST_UNUSED = 0.1  # of the tensors in a file; auxiliary heads are fewer


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
    weights = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    if not weights:
        raise CheckpointError(f"start_from {path} holds no tensors by name")
    return weights


def describe_source(settings: ClassifierSettings, info: ModelInfo) -> str | None:
    """The file or folder of the initial weights, or None. Raises CheckpointError.

    Of a library's files, it is the one whose SHA-256 `settings` record. A network with parts has
    several, which are named one after the other.
    """
    return ", ".join(map(str, _find_files(settings, info))) or None


def _find_files(settings: ClassifierSettings, info: ModelInfo) -> list[Path]:
    """The files of the initial weights, one for each part of the network."""
    if settings.pretrained and (
        files := find_pretrained_files(info, find_recorded_digest(settings))
    ):
        return files
    return [] if settings.start_from is None else [Path(settings.start_from).expanduser()]


def find_recorded_digest(settings: ClassifierSettings) -> str | None:
    """The SHA-256 of the initial weights when the search began, if it is recorded."""
    return settings.weights_sha256.get(choose_weights_key(settings))


def choose_weights_key(settings: ClassifierSettings) -> str:
    """The key of the initial weights in `weights_sha256`."""
    return settings.model if settings.pretrained else str(settings.start_from)


def replace_pixel_stats(data: DatasetInfo, settings: ClassifierSettings) -> DatasetInfo:
    """`data` with the mean and std by which `settings` normalise its pixels.

    Those of colour images are averaged for grey ones. Other channels, and weights of which nothing
    is known, leave the data's own.
    """
    stats: PixelStats | None = None
    if isinstance(settings.pixel_stats, GivenStats):
        stats = settings.pixel_stats.mean, settings.pixel_stats.std
    elif settings.pixel_stats == "imagenet":
        stats = IMAGENET
    elif settings.pixel_stats == "auto":
        stats = find_weight_stats(settings)
    if stats is None:
        return data
    mean, std = ((sum(s) / len(s),) if data.channels == 1 else s for s in stats)
    return replace(data, mean=mean, std=std) if len(mean) == data.channels else data


def begin(model: nn.Module, settings: ClassifierSettings, info: ModelInfo) -> str | None:
    """Give `model` the initial weights that `settings` name.

    Returns a message about them, or None. Raises CheckpointError if the weights cannot be read, and
    SpecError if they do not fit.
    """
    source = describe_source(settings, info)
    if source is None:
        return None
    recorded = find_recorded_digest(settings)
    if recorded is not None and recorded != (digest := compute_backbone_digest(settings, info)):
        raise CheckpointError(
            f"{source} is not what the search began with: its SHA-256 is {digest[:_DIGITS]}..., "
            f"recorded is {recorded[:_DIGITS]}..."
        )
    parts = info.parts if settings.pretrained and info.parts else ("",)
    weights: dict[str, Tensor] = {}
    for part, file in zip(parts, _find_files(settings, info), strict=True):
        network = model.get_submodule(part)
        own = remove_prefix(load_weights(file), network, source=str(file))
        if settings.pretrained:
            own = convert_channels(own, network)
        weights |= {f"{part}.{name}" if part else name: tensor for name, tensor in own.items()}
    new, unused = load_initial_weights(model, weights, source=source)
    message = f"started from {source}; new: {', '.join(new) or 'nothing'}"
    return f"{message}; unused: {summarize_names(unused)}" if unused else message


def build_initial_network(settings: ClassifierSettings, plan: Blueprint) -> nn.Module:
    """The network of `plan` with the initial weights that `settings` name. Raises as `begin`."""
    with seed_generators(0):
        model = plan.initialize_model()
    begin(model, settings, plan.info)
    return model


def find_start_faults(settings: ClassifierSettings, plan: Blueprint) -> list[Fault]:
    """Why a trial could not load its weights, freeze layers or train the head; builds it."""
    faults: list[Fault] = []
    try:
        with seed_generators(0):
            model = plan.initialize_model()
        begin(model, settings, plan.info)
    except SpecError as error:
        return list(error.faults)
    except CheckpointError as error:
        faults = [Fault("pretrained" if settings.pretrained else "start_from", str(error))]
    if settings.train_layers == "head" or settings.fit_head:
        try:
            check_head(model, plan)
        except SpecError as error:
            faults += error.faults
    try:
        match_parameters(model, settings.freeze)
    except SpecError as error:
        faults += error.faults
    return faults


def load_initial_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, source: str
) -> tuple[list[str], list[str]]:
    """Copy `weights` into `model`; returns the names of its new tensors, and of unused weights.

    The head is the layer of the last parameter: its tensors may have another shape or be missing,
    as for another number of classes. Raises SpecError for any other such tensor, and for weights
    that `model` uses only in part, which are another network's.
    """
    own = model.state_dict()
    fitting = {n: w for n, w in weights.items() if n in own and own[n].shape == w.shape}
    new = [name for name in own if name not in fitting]
    head = find_head(model)
    wrong = _find_misfits(model, weights)
    if wrong:
        names = summarize_names(wrong)
        rule = f"lacks, or has in another shape, what is not the head {head!r}: {names}"
        fault = Fault("start_from", f"{rule}; {_describe(weights)}", source)
        raise build_settings_error(fault)
    unused = [name for name in weights if name not in own]
    if len(unused) > _MOST_UNUSED * len(weights):
        rule = f"is of another network, as the model does not use {summarize_names(unused)}"
        fault = Fault("start_from", f"{rule}; {_describe(weights)}", source)
        raise build_settings_error(fault)
    model.load_state_dict(fitting, strict=False)
    return new, unused


def _find_misfits(model: nn.Module, weights: Mapping[str, Tensor]) -> list[str]:
    """The tensors of `model`, except its head, that `weights` lack, or have in another shape."""
    head = find_head(model)
    return [
        name
        for name, tensor in model.state_dict().items()
        if not (name in weights and weights[name].shape == tensor.shape)
        and not name.startswith(f"{head}.")
        and not name.endswith(_COUNT)
    ]


def _describe(weights: Mapping[str, Tensor]) -> str:
    """What a file of weights holds, and the setting `model` for it."""
    names = list(weights)
    ends = [f"{name} ({'x'.join(map(str, weights[name].shape))})" for name in (names[0], names[-1])]
    networks = []
    for name in (*MODELS, *(f"torchvision:{network}" for network in NETWORKS)):
        info = find_model_info(name)
        shape = {"in_channels": 3, "image_size": info.smallest, "num_classes": 2}
        plan = Blueprint(name=name, settings=info.defaults, **shape)
        with torch.device("meta"):
            network = plan.initialize_model()
        if not _find_misfits(network, weights):
            networks.append(f"set training.model={name}")
    advice = " or ".join(networks) or "set training.model to its network, as in my_module:MyNet"
    return f"it holds {format_amount(len(names), 'tensor')}, {' to '.join(ends)}: {advice}"


def remove_prefix(
    weights: dict[str, Tensor], model: nn.Module, *, source: str
) -> dict[str, Tensor]:
    """`weights` by the names in `model`, if those of a trainer have more parts in front.

    DistributedDataParallel puts `module` there, torch.compile `_orig_mod`, and Lightning the
    attribute that holds the network. Weights of other parts keep their names. Raises SpecError if
    two prefixes lead to the same name, as those of a network and of its moving average.
    """
    known = model.state_dict().keys()
    deepest = max(name.count(".") for name in weights)
    for parts in range(deepest + 1):
        split = {name: _split(name, parts) for name in weights}
        prefixes = {prefix for prefix, inner in split.values() if inner in known}
        if not prefixes:
            continue
        named = {name: inner for name, (prefix, inner) in split.items() if prefix in prefixes}
        if len({*named.values()}) < len(named):
            rule = f"holds several sets of weights: {', '.join(sorted(prefixes))}; save one alone"
            raise build_settings_error(Fault("start_from", rule, source))
        return {named.get(name, name): weight for name, weight in weights.items()}
    return weights


def _split(name: str, parts: int) -> tuple[str, str]:
    """(the first `parts` parts of a tensor's name, the others)."""
    names = name.split(".")
    return ".".join(names[:parts]), ".".join(names[parts:])


def convert_channels(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Weights of a network for colour images, with the first convolution for `model`'s channels.

    For grey images they are summed over the colours, as for three equal colours. For other channels
    they are repeated in turn and scaled by their number, as timm does.
    """
    for name, own in model.state_dict().items():
        filters = weights.get(name, own)
        if filters.shape == own.shape:
            continue
        if filters.dim() != 4 or filters.shape[2:] != own.shape[2:]:
            break
        before = filters.shape[1]
        channels = own.shape[1]
        if channels == 1:
            return {**weights, name: filters.sum(1, keepdim=True)}
        widened = filters.repeat(1, ceil(channels / before), 1, 1)[:, :channels]
        return {**weights, name: widened * (before / channels)}
    return dict(weights)


def find_head(model: nn.Module) -> str:
    """The name of the layer that holds the last parameter."""
    return [name for name, _ in model.named_parameters()][-1].rpartition(".")[0]


def check_head(model: nn.Module, plan: Blueprint) -> None:
    """Raise SpecError unless the logits of `model` are what its head returns.

    A head that trains on features takes the place of that layer alone, so nothing may come after
    it, and it must be called once. Puts `model` into evaluation mode and tries it on random images.
    """
    name = find_head(model)
    head = model.get_submodule(name)
    if not isinstance(head, nn.Linear) or head.bias is None:
        rule = f"needs a network whose last layer is linear with a bias, and {plan.name} has {name}"
        raise build_settings_error(Fault("train_layers", rule))
    outputs: list[Tensor] = []
    shape_NCHW = (_TRIED, plan.in_channels, plan.image_size, plan.image_size)
    x_NCHW = torch.randn(shape_NCHW, generator=torch.Generator().manual_seed(0)).to(head.weight)
    hook = head.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    try:
        with torch.no_grad(), seed_generators(0, head.weight.device), hook:
            logits = model.eval()(x_NCHW)
    except Exception as error:  # a custom network may raise any type
        if is_out_of_memory(error):
            raise
        rule = f"cannot take images of {plan.shape} ({format_error(error)})"
        raise plan.build_error(rule) from error
    if len(outputs) != 1 or not torch.equal(outputs[0], logits):
        rule = (
            f"needs a network that returns the output of its last layer, and {plan.name} returns "
            f"something else than that of {name!r}: register the layer of the logits last, or "
            "train all layers"
        )
        raise build_settings_error(Fault("train_layers", rule))


def match_parameters(model: nn.Module, patterns: Sequence[str]) -> frozenset[str]:
    """The names of the parameters that any of the shell-style `patterns` matches.

    A pattern that names a layer means all of its parameters. Raises SpecError for a pattern that
    matches nothing, and if no parameter is left to train.
    """
    names = [name for name, _ in model.named_parameters()]
    matched = {
        p: {n for n in names if fnmatchcase(n, p) or n.startswith(p + ".")} for p in patterns
    }
    layers = tuple(dict.fromkeys(name.split(".")[0] for name in names))
    faults = [
        Fault("freeze", "matches no parameter", pattern, layers)
        for pattern in patterns
        if not matched[pattern]
    ]
    frozen = frozenset[str]().union(*matched.values())
    if len(frozen) == len(names):
        faults.append(Fault("freeze", "leaves nothing to train", ", ".join(patterns)))
    if faults:
        raise build_settings_error(*faults)
    return frozen


def freeze(model: nn.Module, frozen: Collection[str]) -> None:
    """Let all parameters of `model` train but the `frozen`."""
    for name, parameter in model.named_parameters():
        trains = name not in frozen
        parameter.requires_grad_(trains)
        if not trains:
            parameter.grad = None


def freeze_norm_statistics(model: nn.Module) -> None:
    """Put BatchNorm layers that are frozen in evaluation mode, so that their statistics stay."""
    for module in model.modules():
        if isinstance(module, BATCH_NORMS):
            own = list(module.parameters(recurse=False))
            if own and not any(parameter.requires_grad for parameter in own):
                module.eval()


def load_safetensors(path: Path, what: str) -> dict[str, Tensor]:
    """The tensors by name in a safetensors file; CheckpointError, with `what`, if it is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    damaged = (SafetensorError, OSError, RuntimeError, ValueError, KeyError)
    with translate_error(CheckpointError, f"{what} cannot be loaded", of=damaged):
        return dict(load_file(path))


def add_backbone(
    state: dict[str, Any], settings: ClassifierSettings, plan: Blueprint
) -> dict[str, Any]:
    """`state` with all weights, if it is of a head that trained alone. Raises CheckpointError."""
    if BACKBONE not in state:
        return state
    recorded = {**settings.weights_sha256, choose_weights_key(settings): state[BACKBONE]}
    settings = settings.model_copy(update={"weights_sha256": recorded})
    if compute_backbone_digest(settings, plan.info) != state[BACKBONE]:
        source = describe_source(settings, plan.info)
        raise CheckpointError(f"{source} are not the weights that this head was trained on")
    model = build_initial_network(settings, plan)
    return {**state, "model": {**model.state_dict(), **state["model"]}}


def compute_backbone_digest(settings: ClassifierSettings, info: ModelInfo) -> str:
    """The sha256 of the file of the initial weights, or of the digests of several files.

    Raises CheckpointError if one is missing.
    """
    digests = [_compute_digest(file) for file in _find_files(settings, info)]
    assert digests  # as the settings' faults have it
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _compute_digest(path: Path) -> str:
    path = (path / EXPORTED if path.is_dir() else path).resolve()  # caches hold links
    with translate_error(CheckpointError, f"start_from {path} cannot be read", of=OSError):
        stat = path.stat()
    return _hash_file(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _hash_file(path: Path, _changed: int, _size: int) -> str:
    return compute_sha256(path)
