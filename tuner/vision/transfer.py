"""Transfer learning: a network that begins with the weights of an earlier training."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn

from tuner.errors import CheckpointError, Fault, SpecError
from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import seed_generators
from tuner.vision.freezing import match_parameters
from tuner.vision.model_catalog import MODELS, find_model_info
from tuner.vision.models._foreign import NETWORKS
from tuner.vision.models._model import ModelInfo
from tuner.vision.network_head import check_head, find_head
from tuner.vision.settings import ClassifierSettings, build_settings_error
from tuner.vision.weight_files import (
    choose_weights_key,
    compute_backbone_digest,
    describe_source,
    find_recorded_digest,
    find_weight_files,
    load_weights,
)
from tuner.wording import format_amount, summarize_names

BACKBONE = "backbone_sha256"  # the key in the state of a head that trained alone

# Of BatchNorm; older files lack it, and it has no effect
_COUNT = "num_batches_tracked"
_DIGITS = 8  # of a SHA-256 that a message shows
_MOST_UNUSED = 0.1  # of the tensors in a file; auxiliary heads are fewer


def begin(
    model: nn.Module, settings: ClassifierSettings, info: ModelInfo
) -> str | None:
    """Give `model` the initial weights that `settings` name.

    Returns a message about them, or None. Raises CheckpointError if the weights cannot be read, and
    SpecError if they do not fit.
    """
    source = describe_source(settings, info)
    if source is None:
        return None
    recorded = find_recorded_digest(settings)
    if recorded is not None and recorded != (
        digest := compute_backbone_digest(settings, info)
    ):
        raise CheckpointError(
            f"{source} is not what the search began with: its SHA-256 is {digest[:_DIGITS]}..., "
            f"recorded is {recorded[:_DIGITS]}..."
        )
    parts = info.parts if settings.pretrained and info.parts else ("",)
    weights: dict[str, Tensor] = {}
    for part, file in zip(parts, find_weight_files(settings, info), strict=True):
        network = model.get_submodule(part)
        own = remove_prefix(load_weights(file), network, source=str(file))
        if settings.pretrained:
            own = convert_channels(own, network)
        weights |= {
            f"{part}.{name}" if part else name: tensor for name, tensor in own.items()
        }
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
        faults = [
            Fault("pretrained" if settings.pretrained else "start_from", str(error))
        ]
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
    unused = [name for name in weights if name not in own]
    rule = ""
    if wrong := _find_misfits(model, weights):
        names = summarize_names(wrong)
        rule = f"lacks, or has in another shape, what is not the head {head!r}: {names}"
    elif len(unused) > _MOST_UNUSED * len(weights):
        rule = f"is of another network, as the model does not use {summarize_names(unused)}"
    if rule:
        raise build_settings_error(
            Fault("start_from", f"{rule}; {_describe(weights)}", source)
        )
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
    ends = [
        f"{name} ({'x'.join(map(str, weights[name].shape))})"
        for name in (names[0], names[-1])
    ]
    networks = []
    for name in (*MODELS, *(f"torchvision:{network}" for network in NETWORKS)):
        info = find_model_info(name)
        shape = {"in_channels": 3, "image_size": info.smallest, "num_classes": 2}
        plan = Blueprint(name=name, settings=info.defaults, **shape)
        with torch.device("meta"):
            network = plan.initialize_model()
        if not _find_misfits(network, weights):
            networks.append(f"set training.model={name}")
    advice = (
        " or ".join(networks)
        or "set training.model to its network, as in my_module:MyNet"
    )
    return (
        f"it holds {format_amount(len(names), 'tensor')}, {' to '.join(ends)}: {advice}"
    )


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
        named = {
            name: inner for name, (prefix, inner) in split.items() if prefix in prefixes
        }
        if len({*named.values()}) < len(named):
            rule = f"holds several sets of weights: {', '.join(sorted(prefixes))}; save one alone"
            raise build_settings_error(Fault("start_from", rule, source))
        return {named.get(name, name): weight for name, weight in weights.items()}
    return weights


def _split(name: str, parts: int) -> tuple[str, str]:
    """(the first `parts` parts of a tensor's name, the others)."""
    names = name.split(".")
    return ".".join(names[:parts]), ".".join(names[parts:])


def convert_channels(
    weights: Mapping[str, Tensor], model: nn.Module
) -> dict[str, Tensor]:
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


def add_backbone(
    state: dict[str, Any], settings: ClassifierSettings, plan: Blueprint
) -> dict[str, Any]:
    """`state` with all weights, if it is of a head that trained alone. Raises CheckpointError."""
    if BACKBONE not in state:
        return state
    recorded = {
        **settings.weights_sha256,
        choose_weights_key(settings): state[BACKBONE],
    }
    settings = settings.model_copy(update={"weights_sha256": recorded})
    if compute_backbone_digest(settings, plan.info) != state[BACKBONE]:
        source = describe_source(settings, plan.info)
        raise CheckpointError(
            f"{source} are not the weights that this head was trained on"
        )
    model = build_initial_network(settings, plan)
    return {**state, "model": {**model.state_dict(), **state["model"]}}
