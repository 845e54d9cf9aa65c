"""The experiment of a user's own images that sets nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from tuner.errors import SpecError
from tuner.spec.plan import count_local_gpus
from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Choice, Domain
from tuner.spec.space.parsing import parse_domain
from tuner.spec.space.spaces import has_value
from tuner.vision import catalog
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.head_search import SIDE_BY_SIDE, Search, choose_head_search
from tuner.vision.model_catalog import (
    MODELS,
    has_weights,
    is_own_network,
)
from tuner.vision.own_images import has_uneven_classes
from tuner.vision.settings import ClassifierSettings
from tuner.vision.weights import (
    find_timm_files,
    find_weights,
    read_export_config,
)

_BATCH = 32  # images in a step; fewer of a few images, some of which may be unreadable

# From scratch
_SIZE = 64  # px that are trained on by default: a first search on a CPU takes minutes
_SMALL = 16  # px up to which a network of three layers sees a whole image
# Near the best of most photos; and for images that are not to be mirrored, or of which every part
# counts. A mirrored view belongs to training that mirrors
_FIRST = {
    "lr": 5e-3,
    "weight_decay": 0.05,
    "crop_scale": 0.7,
    "flip": True,
    "test_time_flip": True,
}
_UPRIGHT = {**_FIRST, "crop_scale": 1.0, "flip": False, "test_time_flip": False}
# A network that trains so long on few images grows too sure of them. mixup makes it less sure, and
# averaged weights make neighbouring epochs measure alike. The loss chooses: the highest accuracy of
# so many epochs on so few validation images is luck
_REGULARISED = {"mixup": 0.5, "ema_decay": 0.98}

# With pretrained weights. The best network first, of those that fine-tune on a few hundred photos
# within minutes on the device
_BEST = {
    "gpu": (
        *("convnext_tiny", "resnet50", "resnet34"),
        *("mobilenet_v3_large", "resnet18", "mobilenet_v3_small"),
    ),
    "cpu": (
        "mobilenet_v3_large",
        "resnet18",
        "mobilenet_v3_small",
        "resnet34",
        "resnet50",
    ),
    "cpu, many": (
        "mobilenet_v3_small",
        "mobilenet_v3_large",
        "resnet18",
        "resnet34",
        "resnet50",
    ),
}
# Training images: of a mobilenet_v3_large an epoch then takes a core a minute
_MANY = 3000
_TIMMS = {  # timm's names of networks that torchvision names otherwise
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "mobilenet_v3_small": "mobilenetv3_small_100",
}
_PACKAGED = "efficientnet_lite0"  # the network whose weights come in a package
_SMALL_NETWORKS = {name for name, info in MODELS.items() if not info.has_pretrained}
_TUNED_SIZE = {"cpu": 128, "gpu": 224}  # px
# Objectives that count uneven classes alike
_OF_CLASSES = ("val_balanced_accuracy", "val_macro_f1")
_BUDGET_S = 600.0  # the default of a search on a CPU
_TUNED_FIRST = {"lr": 1e-3, "layer_decay": 0.8, "crop_scale": 0.7}
# For images unlike the weights' own
_UNLIKE = {"lr": 1e-2, "layer_decay": 1.0, "crop_scale": 0.7}
_STEPWISE = {
    "optimizer": "adamw",
    "lr_schedule": "one_cycle",
    "label_smoothing": 0.1,
    "decay_norms_and_biases": False,
}
_OF_STEPS = {
    "optimizer",
    "lr",
    "lr_schedule",
    "momentum",
    "layer_decay",
    "mixup",
    "fit_head",
}


_SCRATCH = Search(
    # None is stopped: part of a cycle says little, and choosing by few images less
    trials=2,
    steps=800,
    least_epochs=5,
    space={
        "lr": "loguniform(1e-3, 1e-2)",
        "weight_decay": "loguniform(1e-3, 0.2)",
        "crop_scale": "choice([0.35, 0.7, 1.0])",
        "flip": "choice([True, False])",
        "test_time_flip": "choice([True, False])",
    },
    points=(_FIRST, _UPRIGHT),
    settings={**_REGULARISED, **_STEPWISE},
)
_FINE_TUNING = Search(
    trials=6,  # none is stopped, as from scratch, unless further networks make it more
    steps=300,
    least_epochs=3,
    space={
        "train_layers": "choice(['all', 'head'])",
        "lr": "loguniform(3e-4, 1e-2)",
        "layer_decay": "uniform(0.65, 1.0)",
        "crop_scale": "choice([0.35, 0.7, 1.0])",
    },
    # The head alone comes first: a good model after one pass of the network
    points=(
        {**_TUNED_FIRST, "train_layers": "head"},
        {**_TUNED_FIRST, "train_layers": "all"},
        {**_UNLIKE, "train_layers": "all"},
    ),
    settings=_STEPWISE,
)


def choose_pretrained_model(device: str, images: int = 0) -> str | None:
    """The model to fine-tune first by the weights that are here, or None.

    device: "cpu" or "gpu". images: how many train; many train a faster network on a CPU.
    """
    cached = find_timm_files()
    for name in _BEST["cpu, many" if device == "cpu" and images >= _MANY else device]:
        variants = [
            each for each in cached if each.partition(".")[0] == _TIMMS.get(name, name)
        ]
        for model in (f"torchvision:{name}", *(f"timm:{each}" for each in variants)):
            if has_weights(model):
                return model
    return _PACKAGED if has_weights(_PACKAGED) else None


def suggest_weights(info: DatasetInfo, settings: ClassifierSettings) -> str | None:
    """How to get pretrained weights, for photos that train without any on this machine."""
    weights = find_weights(_PACKAGED)
    if (
        info.image_size <= _SMALL
        or settings.begins_with_weights
        or is_own_network(settings.model)
        or choose_pretrained_model("cpu")
    ):
        return None
    return (
        "training starts from random weights, as no pretrained ones are on this machine; "
        f"`{weights.fetch_command}` ({weights.size_mib:.0f} MiB) lets the next search fine-tune "
        "instead, with about a third fewer errors on most photos"
    )


def build_default_experiment(
    dataset: str,
    directory: Path,
    training: Mapping[str, Any],
    space: Mapping[str, Any],
    budget_s: object = None,
    metric: object = None,
) -> dict[str, Any]:
    """The plain values of a spec that searches for a classifier of these images.

    It fine-tunes a network if its weights are on this machine, and trains from scratch otherwise.
    On a CPU an epoch of the packaged network takes minutes, so that heads are fitted to features,
    of as many pixels as the time allows. Of several networks in `space` each is tried first with a
    head on its features. If classes are uneven and `metric` counts them alike, the search tries
    weights of classes. dataset: as in `training.dataset`; the path of a folder, seen from
    `directory`, becomes absolute. training, space, budget_s, metric: what the user sets. Raises
    SpecError for images that cannot work, and DataError if they are not there.
    """
    scheme, _, path = dataset.partition(":")
    if scheme == "folder":
        dataset = f"folder:{os.path.abspath(directory / Path(path).expanduser())}"
    choice = catalog.DataChoice(dataset)
    try:
        info = catalog.describe(choice) or catalog.load_dataset_info(choice)
    except FaultsError as error:
        faults = [fault.add_prefix("training.dataset") for fault in error.faults]
        raise SpecError(faults, dataset) from error
    gpus = count_local_gpus()
    batch_size = min(_BATCH, max(1, info.train // 2))
    networks = _read_domain(space.get("model"))
    models = [*networks.values] if isinstance(networks, Choice) else []
    network = space.get("model") or training.get("model")
    named = models or ([network] if network else [])
    start = _choose_start_settings(info, training, "gpu" if gpus else "cpu", named)
    given = {*training, *space}
    search = _FINE_TUNING if start else _SCRATCH
    if start and _is_for_heads(start, given, training, is_free=not (gpus or models)):
        del start["fit_head"], start["weight_decay"]
        is_planned = _is_packaged(start) and not gpus
        search = choose_head_search(
            start,
            info,
            training,
            space,
            budget_s=_read_budget(budget_s) if is_planned else None,
            has_wider=not network and has_weights(SIDE_BY_SIDE),
        )
    if metric in _OF_CLASSES and has_uneven_classes(info):
        search = search._replace(
            space={**search.space, "class_weights": "choice([None, 'balanced'])"},
            points=tuple(
                {**point, "class_weights": "balanced"} for point in search.points
            ),
        )
    epochs = max(search.least_epochs, ceil(search.steps * batch_size / info.train))
    if training.get("flip") is False:
        given.add("test_time_flip")
    firsts = search.points
    if training.get("freeze"):  # layers that a head alone leaves out
        given.add("train_layers")
        firsts = tuple(point for point in firsts if point.get("train_layers") != "head")
    points = [
        {**_filter_point(point, given, space), **({"model": model} if models else {})}
        for point in firsts
        for model in models or [None]
    ]
    constants = {
        "dataset": dataset,
        **(start or _choose_scratch_settings(info, network)),
        "batch_size": batch_size,
        **search.settings,
    }
    fixed = constants.keys() - search.space.keys() - (space.keys() - {"dataset"})
    return {
        "name": catalog.shorten_name(dataset),
        "training": {name: value for name, value in constants.items() if name in fixed},
        "search": {
            "strategy": search.strategy,
            "space": {
                name: text for name, text in search.space.items() if name not in given
            },
            "points_to_evaluate": points,
            # What has been tried of each network decides
            **({"startup": len(points)} if models else {}),
        },
        "scheduler": {
            "name": "asha",
            "max_t": epochs,
            "reduction_factor": 3,
            # No head is stopped
            **({"grace_period": epochs} if "folds" in search.settings else {}),
        },
        "num_samples": search.trials + len(points) - len(firsts),
        **({"refit": True} if search.refit else {}),
        **({"time_budget_s": _BUDGET_S} if search.refit and not gpus else {}),
        **({"resources": {"gpus": 1}} if gpus else {}),
    }


def _is_for_heads(
    start: Mapping[str, Any],
    given: Set[str],
    training: Mapping[str, Any],
    *,
    is_free: bool,
) -> bool:
    """Whether heads alone are searched.

    is_free: neither a GPU trains nor several networks, so that an epoch would take minutes.
    """
    is_default = is_free and not given & {"train_layers", "freeze"}
    is_wanted = training.get("train_layers") == "head"
    return (is_wanted or (is_default and _is_packaged(start))) and not given & _OF_STEPS


def _is_packaged(start: Mapping[str, Any]) -> bool:
    return bool(start.get("pretrained")) and start["model"] == _PACKAGED


def _read_budget(budget_s: object) -> float:
    return float(budget_s) if isinstance(budget_s, int | float) else _BUDGET_S


def _filter_point(
    point: Mapping[str, Any], given: Set[str], space: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of a first config that the user has not `given`, or that their domains contain."""

    def is_kept(name: str, value: Any) -> bool:
        domain = _read_domain(space.get(name))
        return name not in given or (domain is not None and has_value(domain, value))

    return {name: value for name, value in point.items() if is_kept(name, value)}


def _read_domain(text: object) -> Domain | None:
    """The domain that the user gives as text; None for a constant, or for what the spec refuses."""
    with suppress(FaultsError):
        return parse_domain(text) if isinstance(text, str) else None
    return None


def _choose_scratch_settings(info: DatasetInfo, network: object) -> dict[str, Any]:
    """The size, and a network that fits it. network: the user's, or their domain of networks."""
    size = min(info.image_size, _SIZE)
    if size > _SMALL:
        return {"image_size": size, "model": "resnet10"}
    width = {"width": 32} if network in (None, "cnn") else {}
    return {"image_size": size, "model": "cnn", **width}


def _choose_start_settings(
    info: DatasetInfo,
    training: Mapping[str, Any],
    device: str,
    models: Sequence[object],
) -> dict[str, Any] | None:
    """The settings that begin with pretrained weights, or None if there are none to use.

    models: that the user names or searches over, if any.
    """
    recipe = {
        "fit_head": True,
        "flip": True,
        "test_time_flip": True,
        "weight_decay": 0.05,
    }
    size = _TUNED_SIZE[device]
    if source := training.get("start_from"):
        exported = (read_export_config(str(source)) or {}).get("model") or {}
        named = exported.get("name") or next(iter(models), None)
        scratch = _choose_scratch_settings(info, named)
        known = {"model": named, "image_size": exported.get("image_size")}
        if not exported and named and str(named) not in _SMALL_NETWORKS:
            known["image_size"] = size
        settings = {name: value for name, value in known.items() if value is not None}
        return {**scratch, **settings, **exported.get("settings", {}), **recipe}
    if training.get("pretrained") is False or info.image_size <= _SMALL:
        return None
    models = models or [choose_pretrained_model(device, info.train)]
    are_here = all(isinstance(model, str) and has_weights(model) for model in models)
    if not (training.get("pretrained") or are_here):
        return None
    return {"model": models[0], "pretrained": True, "image_size": size, **recipe}
