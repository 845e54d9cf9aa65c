"""A user's own images: what a plan says of them, doubts about them, their default experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from tuner.errors import SpecError
from tuner.experiment.results.statistics import UNEVEN
from tuner.spec.plan import gpus_here
from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Choice, Domain
from tuner.spec.space.parsing import parse_domain
from tuner.spec.space.spaces import has_value
from tuner.vision import catalog
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.settings import ClassifierSettings, stats_of_weights
from tuner.vision.sources._decoded import CONSTANT
from tuner.vision.weights import export_config, exported_stats, timm_files, weights_named
from tuner.wording import amount_of, some_of

_FLAT = 0.02  # of 1: the standard deviation of pixels in which hardly anything is to be seen
_SHOWN = 5  # classes or images that a message lists

_BATCH = 32  # images in a step; fewer of a few images, some of which may be unreadable

# From scratch
_SIZE = 64  # px that are trained on unless set: a first search on a CPU takes minutes
_SMALL = 16  # px up to which a network of three layers sees a whole image
# Near the best of most photos; and for images that are not to be mirrored, or of which every part
# counts. A mirrored view belongs to training that mirrors
_FIRST = {"lr": 5e-3, "weight_decay": 0.05, "crop_scale": 0.7, "flip": True, "test_time_flip": True}
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
    "cpu": ("mobilenet_v3_large", "resnet18", "mobilenet_v3_small", "resnet34", "resnet50"),
    "cpu, many": ("mobilenet_v3_small", "mobilenet_v3_large", "resnet18", "resnet34", "resnet50"),
}
_MANY = 3000  # training images: of a mobilenet_v3_large an epoch then takes a core a minute
_TIMMS = {  # timm's names of networks that torchvision names otherwise
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "mobilenet_v3_small": "mobilenetv3_small_100",
}
_PACKAGED = "efficientnet_lite0"  # the network whose weights come in a package
_SMALL_NETWORKS = {name for name, info in catalog.MODELS.items() if info.pretrained is None}
_TUNED_SIZE = {"cpu": 128, "gpu": 224}  # px
_FEW_SIZE = 224  # px of the features of few images on a CPU: a core computes ten images a second
_TUNED_FIRST = {"lr": 1e-3, "layer_decay": 0.8, "crop_scale": 0.7}
_UNLIKE = {"lr": 1e-2, "layer_decay": 1.0, "crop_scale": 0.7}  # for images unlike the weights' own


def outline_of(info: DatasetInfo) -> dict[str, Any]:
    """What a plan says of images: {title, images, shape, classes, bits, skipped}.

    images: of each split. classes: how many images each has, where they have been counted, else
    their number. bits, skipped: of the `DatasetInfo`, left out where they are empty.
    """
    return {
        "title": info.title,
        "images": {name: getattr(info, name) for name in ("train", "validation", "test")},
        "shape": [info.channels, info.image_size, info.image_size],
        "classes": dict(zip(info.classes, info.class_counts, strict=True))
        if info.class_counts
        else info.num_classes,
        **({"bits": info.bits} if info.bits else {}),
        **({"skipped": list(info.skipped)} if info.skipped else {}),
    }


def doubts(info: DatasetInfo) -> Iterator[str]:
    """What makes measures on these images doubtful, in words."""
    stds = [0.0 if std == CONSTANT else std for std in info.std]
    if stds and max(stds) < _FLAT:
        yield (
            f"the images are almost of one colour, their pixels differ by {max(stds):.1g} of 1: "
            "if a few pixels of files of 16 bits are far brighter, set training.image_bits"
        )
    if info.skipped:
        count = amount_of(len(info.skipped), "image")
        yield f"{count} skipped that cannot be read: {some_of(info.skipped, _SHOWN)}"
    if info.unmeasured:
        more = ", ..." if len(info.unmeasured) > _SHOWN else ""
        yield (
            "the validation or test split has no image of these classes, so no measure on it tells "
            f"of them: {', '.join(info.unmeasured[:_SHOWN])}{more}"
        )
    if info.copies:
        count = amount_of(info.copies, "image")
        yield (
            f"{count} of the validation or test split are exact copies of images of another "
            "split: measures on these flatter"
        )
    if info.relabelled:
        count = amount_of(len(info.relabelled), "image")
        yield (
            f"{count} with a copy of another label, so one of the labels is wrong: "
            f"{some_of(info.relabelled, _SHOWN)}"
        )
    if info.class_counts and max(info.class_counts) > UNEVEN * min(info.class_counts):
        most, least = (
            f"{info.classes[info.class_counts.index(count)]!r} has {count:,}"
            for count in (max(info.class_counts), min(info.class_counts))
        )
        yield f"the classes are uneven: {most} images, {least}"


def from_scratch_hint(info: DatasetInfo, settings: ClassifierSettings) -> str | None:
    """How to get pretrained weights, for photos that train without any on this machine."""
    weights = weights_named(_PACKAGED)
    is_small = info.image_size <= _SMALL
    if is_small or settings.begins_with_weights or catalog.is_own_network(settings.model):
        return None
    if best_model("cpu"):
        return None
    return (
        "training starts from random weights, as no pretrained ones are on this machine; "
        f"`{weights.fetch_command}` ({weights.size_mib:.0f} MiB) lets the next search fine-tune "
        "instead, with about a third fewer errors on most photos"
    )


def unknown_stats_hint(settings: ClassifierSettings) -> str | None:
    """Which mean and std pixels get for a file of weights that does not say its own, or None."""
    source = settings.start_from
    if source is None or settings.pixel_stats != "auto" or exported_stats(source):
        return None
    whose = "those of the data"
    if stats_of_weights(settings):
        whose = f"those of the pretrained weights of {settings.model}"
    return (
        f"{source} does not say by which mean and std its pixels were normalised, so {whose} are "
        "used: set training.pixel_stats={mean: [...], std: [...]} to what its training used"
    )


def best_model(device: str, images: int = 0) -> str | None:
    """The model to fine-tune first by the weights that are here, or None.

    device: "cpu" or "gpu". images: how many train; many train a faster network on a CPU.
    """
    cached = timm_files()
    for name in _BEST["cpu, many" if device == "cpu" and images >= _MANY else device]:
        variants = [each for each in cached if each.partition(".")[0] == _TIMMS.get(name, name)]
        for model in (f"torchvision:{name}", *(f"timm:{each}" for each in variants)):
            if catalog.has_weights(model):
                return model
    return _PACKAGED if catalog.has_weights(_PACKAGED) else None


def default_experiment(
    dataset: str, directory: Path, training: Mapping[str, Any], space: Mapping[str, Any]
) -> dict[str, Any]:
    """The plain values of a spec that searches for a classifier of these images.

    It fine-tunes a network if its weights are on this machine, and trains from scratch otherwise.
    On a CPU an epoch of the packaged network takes minutes, so that heads on its features train.
    Of several networks in `space` each is tried first with a head on its features. dataset: as in
    `training.dataset`; the path of a folder, seen from `directory`, becomes absolute. training,
    space: what the user sets. Raises SpecError for images that cannot work, and DataError if they
    are not there.
    """
    scheme, _, path = dataset.partition(":")
    if scheme == "folder":
        dataset = f"folder:{os.path.abspath(directory / Path(path).expanduser())}"
    choice = catalog.DataChoice(dataset)
    try:
        info = catalog.describe(choice) or catalog.dataset_info(choice)
    except FaultsError as error:
        faults = [fault.under("training.dataset") for fault in error.faults]
        raise SpecError(faults, dataset) from error
    gpus = gpus_here()
    batch_size = min(_BATCH, max(1, info.train // 2))
    models = _networks(space)
    network = space.get("model") or training.get("model")
    named = models or ([network] if network else [])
    start = _start(info, training, "gpu" if gpus else "cpu", named)
    search = _SCRATCH
    if start:
        search = _HEADS if training.get("train_layers") == "head" else _FINE_TUNING
        chooses_layers = {"train_layers", "freeze"} & {*training, *space}
        is_packaged = start.get("pretrained") and start["model"] == _PACKAGED
        if is_packaged and not (gpus or models or chooses_layers):
            start["train_layers"] = "head"
            search = _MANY_HEADS
            if info.train <= _MANY:
                start["image_size"] = _FEW_SIZE
                search = _FEW_HEADS
    epochs = max(search.least_epochs, ceil(search.steps * batch_size / info.train))
    given = {*training, *space}
    if training.get("flip") is False:
        given.add("test_time_flip")
    firsts = search.points
    if training.get("freeze"):  # layers that a head alone leaves out
        given.add("train_layers")
        firsts = tuple(point for point in firsts if point.get("train_layers") != "head")
    points = [
        {**_kept(point, given, space), **({"model": model} if models else {})}
        for point in firsts
        for model in models or [None]
    ]
    constants = {
        "dataset": dataset,
        "batch_size": batch_size,
        "optimizer": "adamw",
        "lr_schedule": "one_cycle",
        "label_smoothing": 0.1,
        "decay_norms_and_biases": False,
        **(start or {**_from_scratch(info, network), **_REGULARISED}),
    }
    fixed = constants.keys() - search.space.keys() - (space.keys() - {"dataset"})
    return {
        "name": catalog.short_name(dataset),
        "training": {name: value for name, value in constants.items() if name in fixed},
        "search": {
            "strategy": search.strategy,
            "space": {name: text for name, text in search.space.items() if name not in given},
            "points_to_evaluate": points,
            # What has been tried of each network decides
            **({"startup": len(points)} if models else {}),
        },
        "scheduler": {"name": "asha", "max_t": epochs, "reduction_factor": 3},
        "num_samples": search.trials + len(points) - len(firsts),
        **({"refit": True} if search.refit else {}),
        **({"resources": {"gpus": 1}} if gpus else {}),
    }


def _networks(space: Mapping[str, Any]) -> list[Any]:
    """The networks that the user searches over."""
    domain = _domain(space.get("model"))
    return [*domain.values] if isinstance(domain, Choice) else []


def _kept(point: Mapping[str, Any], given: Set[str], space: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a first config that the user has not `given`, or that their domains contain."""

    def is_kept(name: str, value: Any) -> bool:
        domain = _domain(space.get(name))
        return name not in given or (domain is not None and has_value(domain, value))

    return {name: value for name, value in point.items() if is_kept(name, value)}


def _domain(text: object) -> Domain | None:
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
    trials=2,  # none is stopped: part of a cycle says little, and choosing by few images less
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
    trials=100,
    steps=0,
    least_epochs=3,  # a fitted head is near its best before it trains
    space={"lr": "loguniform(1e-4, 1e-1)", "weight_decay": "loguniform(1e-4, 1.0)"},
    points=({"lr": 1e-3, "weight_decay": 0.05},),
    strategy="hyperopt",  # a suggestion of mixed takes longer than such a trial
)
# More would choose the luckiest on few images; a refit takes seconds
_MANY_HEADS = _HEADS._replace(trials=12, refit=True)
# The features of all levels differ in scale a thousandfold, so that larger steps spoil a head that
# fits them. Two processes compute the features of both values at the same time
_FEW_HEADS = _MANY_HEADS._replace(
    space={"levels": "choice([True, False])", "lr": "loguniform(1e-7, 1e-6)"},
    points=({"levels": True, "lr": 3e-7}, {"levels": False, "lr": 3e-7}),
    trials=6,
)


def _from_scratch(info: DatasetInfo, network: object = None) -> dict[str, Any]:
    """The size, and a network that fits it. network: the user's, or their domain of networks."""
    size = min(info.image_size, _SIZE)
    if size > _SMALL:
        return {"image_size": size, "model": "resnet10"}
    width = {"width": 32} if network in (None, "cnn") else {}
    return {"image_size": size, "model": "cnn", **width}


def _start(
    info: DatasetInfo, training: Mapping[str, Any], device: str, models: Sequence[object]
) -> dict[str, Any] | None:
    """The settings that begin with pretrained weights, or None if there are none to use.

    models: that the user names or searches over, if any.
    """
    recipe = {"fit_head": True, "flip": True, "test_time_flip": True, "weight_decay": 0.05}
    size = _TUNED_SIZE[device]
    if source := training.get("start_from"):
        exported = (export_config(str(source)) or {}).get("model") or {}
        named = exported.get("name") or next(iter(models), None)
        scratch = _from_scratch(info, named)
        known = {"model": named, "image_size": exported.get("image_size")}
        if not exported and named and str(named) not in _SMALL_NETWORKS:
            known["image_size"] = size
        settings = {name: value for name, value in known.items() if value is not None}
        return {**scratch, **settings, **exported.get("settings", {}), **recipe}
    if training.get("pretrained") is False or info.image_size <= _SMALL:
        return None
    models = models or [best_model(device, info.train)]
    are_here = all(isinstance(model, str) and catalog.has_weights(model) for model in models)
    if not (training.get("pretrained") or are_here):
        return None
    return {"model": models[0], "pretrained": True, "image_size": size, **recipe}
