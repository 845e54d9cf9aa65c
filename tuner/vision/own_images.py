"""A user's own images: what a plan says of them, doubts about them, their default experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from tuner.errors import SpecError
from tuner.experiment.results.split_details import UNEVEN
from tuner.spec.plan import count_local_gpus
from tuner.spec.quotas import count_usable_cpus
from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Choice, Domain
from tuner.spec.space.parsing import parse_domain
from tuner.spec.space.spaces import has_value
from tuner.vision import catalog
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.model_catalog import (
    MODELS,
    find_model_info,
    has_weights,
    is_own_network,
)
from tuner.vision.pixel_stats import find_weight_stats
from tuner.vision.settings import ClassifierSettings
from tuner.vision.sources._decoded import CONSTANT
from tuner.vision.weights import (
    find_timm_files,
    find_weights,
    read_export_config,
    read_exported_stats,
)
from tuner.wording import format_amount, summarize_names

# Of 1: the standard deviation of pixels in which hardly anything is to be seen
_FLAT = 0.02
_SHOWN = 5  # classes or images that a message lists

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
# It and larger ones, whose weights come in packages, too
_SIDE_BY_SIDE = "efficientnet_lites"
_SMALL_NETWORKS = {name for name, info in MODELS.items() if not info.has_pretrained}
_TUNED_SIZE = {"cpu": 128, "gpu": 224}  # px
# Heads on a CPU. The largest of these sizes, in px, whose features take no more than a part of the
# time; then larger networks beside it, random crops of each image and views upside down, as far as
# larger parts allow
_HEAD_SIZES = (288, 224, 160, 128, 96, 64)
_SIZE_SHARE = 0.2
_WIDE_SHARE = 0.3
_CROPS_SHARE = 0.35
_UPSIDE_DOWN_SHARE = 0.5
_MOST_CROPS = 8
_MOST_ROWS = 20_000  # features of images and crops, half a gigabyte
_MOST_TURNED = 30_000  # with those of views upside down
_PIXEL_S = 7e-7  # of the packaged network, on one core while the others compute, too
_WIDE = 3.7  # times as many seconds and features of all networks side by side
_VIEWS = 2  # an image, and its mirror image; upside down as many again
_FOLDS = 5
# Images up to which heads are cross-validated; the validation split of more tells
_FOLDED = 3000
# Objectives that count uneven classes alike
_OF_CLASSES = ("val_balanced_accuracy", "val_macro_f1")
_BUDGET_S = 600.0  # the default of a search on a CPU
_TUNED_FIRST = {"lr": 1e-3, "layer_decay": 0.8, "crop_scale": 0.7}
# For images unlike the weights' own
_UNLIKE = {"lr": 1e-2, "layer_decay": 1.0, "crop_scale": 0.7}
_FITTED_FIRST = {"weight_decay": 0.3, "flip": True, "test_time_flip": True}
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


def describe_dataset(info: DatasetInfo) -> dict[str, Any]:
    """What a plan says of images: {title, images, shape, classes, bits, skipped}.

    images: of each split. classes: how many images each has, where they have been counted, else
    their number. bits, skipped: of the `DatasetInfo`, left out where they are empty.
    """
    return {
        "title": info.title,
        "images": {
            name: getattr(info, name) for name in ("train", "validation", "test")
        },
        "shape": [info.channels, info.image_size, info.image_size],
        "classes": dict(zip(info.classes, info.class_counts, strict=True))
        if info.class_counts
        else info.num_classes,
        **({"bits": info.bits} if info.bits else {}),
        **({"skipped": list(info.skipped)} if info.skipped else {}),
    }


def find_doubts(info: DatasetInfo) -> Iterator[str]:
    """What makes measures on these images doubtful, in words."""
    stds = [0.0 if std == CONSTANT else std for std in info.std]
    if stds and max(stds) < _FLAT:
        yield (
            f"the images are almost of one colour, their pixels differ by {max(stds):.1g} of 1: "
            "if a few pixels of files of 16 bits are far brighter, set training.image_bits"
        )
    if info.skipped:
        count = format_amount(len(info.skipped), "image")
        yield f"{count} skipped that cannot be read: {summarize_names(info.skipped, _SHOWN)}"
    if info.unmeasured:
        more = ", ..." if len(info.unmeasured) > _SHOWN else ""
        yield (
            "the validation or test split has no image of these classes, so no measure on it tells "
            f"of them: {', '.join(info.unmeasured[:_SHOWN])}{more}"
        )
    if info.copies:
        count = format_amount(info.copies, "image")
        yield (
            f"{count} of the validation or test split are exact copies of images of another "
            "split: measures on these flatter"
        )
    if info.relabelled:
        count = format_amount(len(info.relabelled), "image")
        yield (
            f"{count} with a copy of another label, so one of the labels is wrong: "
            f"{summarize_names(info.relabelled, _SHOWN)}"
        )
    if _has_uneven_classes(info):
        most, least = (
            f"{info.classes[info.class_counts.index(count)]!r} has {count:,}"
            for count in (max(info.class_counts), min(info.class_counts))
        )
        yield (
            f"the classes are uneven: {most} images, {least}; "
            "objective.metric=val_balanced_accuracy counts every class alike, and "
            "training.class_weights=balanced weighs them alike in the loss"
        )


def _has_uneven_classes(info: DatasetInfo) -> bool:
    return max(info.class_counts, default=0) > UNEVEN * min(
        info.class_counts, default=0
    )


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


def suggest_pixel_stats(settings: ClassifierSettings) -> str | None:
    """Which mean and std pixels get for a file of weights that does not say its own, or None."""
    source = settings.start_from
    if source is None or settings.pixel_stats != "auto" or read_exported_stats(source):
        return None
    whose = "those of the data"
    if find_weight_stats(settings):
        whose = f"those of the pretrained weights of {settings.model}"
    return (
        f"{source} does not say by which mean and std its pixels were normalised, so {whose} are "
        "used: set training.pixel_stats={mean: [...], std: [...]} to what its training used"
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
    search = _SCRATCH
    given = {*training, *space}
    settings = {"batch_size": batch_size, **_STEPWISE}
    if start:
        search = _FINE_TUNING
        is_packaged = bool(start.get("pretrained")) and start["model"] == _PACKAGED
        fits_heads = is_packaged and not (
            gpus or models or given & {"train_layers", "freeze"}
        )
        if (
            fits_heads or training.get("train_layers") == "head"
        ) and not given & _OF_STEPS:
            del start["fit_head"], start["weight_decay"]
            heads = _HeadPlan(start["image_size"])
            if is_packaged and not gpus:
                time_s = (
                    float(budget_s) if isinstance(budget_s, int | float) else _BUDGET_S
                )
                heads = _choose_head_plan(
                    info,
                    time_s,
                    training,
                    space,
                    has_wider=not network and has_weights(_SIDE_BY_SIDE),
                )
            start["image_size"] = heads.image_size
            search = _build_head_search(start["model"], heads)
            settings = {
                "batch_size": batch_size,
                "train_layers": "head",
                "optimizer": "lbfgs",
            }
            if heads.crops:
                settings["crop_scale"] = 0.4
            keeps_validation = "resplit" in given or "validation" in (
                info.own_splits or ()
            )
            if info.train + info.validation <= _FOLDED and not keeps_validation:
                settings["folds"] = _FOLDS  # each of few images tells
    if metric in _OF_CLASSES and _has_uneven_classes(info):
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
        **(start or {**_choose_scratch_settings(info, network), **_REGULARISED}),
        **settings,
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
            **({"grace_period": epochs} if "folds" in settings else {}),
        },
        "num_samples": search.trials + len(points) - len(firsts),
        **({"refit": True} if search.refit else {}),
        **({"time_budget_s": _BUDGET_S} if search.refit and not gpus else {}),
        **({"resources": {"gpus": 1}} if gpus else {}),
    }


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


class _Search(NamedTuple):
    """What is searched. steps: that the best trials train: few images make many short epochs."""

    trials: int
    steps: int
    least_epochs: int
    space: dict[str, str]
    points: tuple[dict[str, Any], ...]
    strategy: str = "mixed"
    refit: bool = False


_SCRATCH = _Search(
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
)
_FINE_TUNING = _Search(
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
)
_HEADS = _Search(
    trials=12,  # more would choose the luckiest on few images
    steps=0,
    least_epochs=1,
    space={
        # Least for images unlike photos, as digits
        "weight_decay": "loguniform(1e-3, 3)",
        "flip": "choice([True, False])",
        "test_time_flip": "choice([True, False])",
    },
    points=(
        _FITTED_FIRST,
        {**_FITTED_FIRST, "flip": False, "test_time_flip": False},
        *({**_FITTED_FIRST, "weight_decay": decay} for decay in (1.0, 0.1, 0.01)),
    ),
    refit=True,  # takes seconds
)


class _HeadPlan(NamedTuple):
    """What the features of a search of heads are computed of.

    crops: of each image. is_wide: whether larger networks stand beside the packaged one.
    is_turned: whether views upside down are tried.
    """

    image_size: int
    crops: int = 0
    is_wide: bool = False
    is_turned: bool = False


def _build_head_search(model: object, plan: _HeadPlan) -> _Search:
    """The search of heads of `model`, the fastest first.

    Features without crops, and of one network, take less time. Of a network that can show its head
    all levels, with them and without.
    """
    space = dict(_HEADS.space)
    points = list(_HEADS.points)
    if plan.crops:
        space["crops_per_image"] = f"choice([0, {plan.crops}])"
        first, upright, *others = ({**point, "crops_per_image": 0} for point in points)
        cropped = (
            {**point, "crops_per_image": plan.crops} for point in (first, *others)
        )
        points = [first, upright, *cropped]
    if plan.is_turned:
        space["vertical_flip"] = "choice([True, False])"
        points = [{**point, "vertical_flip": False} for point in points]
        # More views of an image need less decay
        points.append({**points[0], "weight_decay": 0.1, "vertical_flip": True})
    if "levels" in find_model_info(str(model)).defaults:
        space["levels"] = "choice([True, False])"
        points = [{**point, "levels": True} for point in points]
        points.append({**points[0], "levels": False})
    if plan.is_wide:
        space["model"] = f"choice(['{model}', '{_SIDE_BY_SIDE}'])"
        alone = {**points[0], "model": model}
        points = [alone, *({**point, "model": _SIDE_BY_SIDE} for point in points)]
    return _HEADS._replace(space=space, points=tuple(points))


def _choose_head_plan(
    info: DatasetInfo,
    budget_s: float,
    training: Mapping[str, Any],
    space: Mapping[str, Any],
    *,
    has_wider: bool,
) -> _HeadPlan:
    """The pixels, networks, crops and views of an image whose features take their shares of time.

    training, space: what the user sets. has_wider: whether larger networks are here.
    """
    images = info.train + info.validation + info.test
    size = training.get("image_size")
    sizes = (size,) if isinstance(size, int) else _HEAD_SIZES
    views = _VIEWS
    if training.get("vertical_flip") or "vertical_flip" in space:
        views = 2 * _VIEWS

    def estimate_pass_s(size: int) -> float:
        return images * size**2 * _PIXEL_S / count_usable_cpus()

    fast = (
        size
        for size in sizes
        if views * estimate_pass_s(size) <= _SIZE_SHARE * budget_s
    )
    size = next(fast, sizes[-1])
    pass_s = estimate_pass_s(size)
    is_wide = has_wider and _WIDE * images * views <= _MOST_ROWS
    is_wide = is_wide and _WIDE * views * pass_s <= _WIDE_SHARE * budget_s
    cost = _WIDE if is_wide else 1.0
    most = min(_MOST_CROPS, int(_MOST_ROWS / images / cost) - views)
    fitting = int(_CROPS_SHARE * budget_s / (cost * pass_s))
    crops = max(0, min(most, fitting - views))
    turned = cost * (views + crops + _VIEWS)
    is_turned = (
        # Images that must not be mirrored have an up and down, too
        training.get("flip") is not False
        and "vertical_flip" not in {*training, *space}
        and turned * images <= _MOST_TURNED
        and turned * pass_s <= _UPSIDE_DOWN_SHARE * budget_s
    )
    return _HeadPlan(size, crops, is_wide, is_turned)


def _choose_scratch_settings(
    info: DatasetInfo, network: object = None
) -> dict[str, Any]:
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
