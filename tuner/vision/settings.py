"""The settings of the image classifier that ships, and every fault that they can have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    create_model,
    model_validator,
)

from tuner.errors import Fault, SpecError
from tuner.spec.settings import FaultsError, Settings, bad_value, parse, parse_texts
from tuner.spec.space.spaces import merge_config
from tuner.vision import catalog, recipe
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.model_catalog import MODELS, find_model_info
from tuner.vision.models._model import Arguments, ModelInfo
from tuner.vision.recipe import BelowOne, UpToOne

_SUBJECT = "the image classifier"
AtLeastOne = Annotated[int, Field(ge=1)]


if TYPE_CHECKING:
    _ModelSettings = Settings
else:
    # Every hyperparameter that only some models have, with its bounds, but None by default
    _FIELDS = {
        name: (Annotated[field.annotation | None, field], None)
        for settings in (*(info.settings for info in MODELS.values()), Arguments)
        for name, field in settings.model_fields.items()
    }
    _ModelSettings = create_model("_ModelSettings", __base__=Settings, **_FIELDS)


def _check_model(reference: str) -> str:
    find_model_info(reference)
    return reference


def _parse_patterns(raw: object) -> tuple[str, ...]:
    return parse_texts(raw, "must be a name pattern or a list of them")


_OF_DATA = {field.name for field in fields(catalog.DataChoice)}


class GivenStats(Settings):
    """The mean and std of each channel, of pixels from 0 to 1."""

    mean: Annotated[tuple[float, ...], Field(min_length=1)]
    std: tuple[PositiveFloat, ...]

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len(self.mean) != len(self.std):
            raise bad_value(
                f"must have as many values as mean, {len(self.mean)}", self.std
            )
        return self


_WHOSE = ("auto", "data", "imagenet")


def _parse_pixel_stats(raw: object) -> object:
    if isinstance(raw, Mapping):
        stats, faults = parse(GivenStats, raw)
        if faults:
            raise FaultsError(*faults)
        return stats
    if not (isinstance(raw, GivenStats) or raw in _WHOSE):
        raise bad_value(
            "must be {mean: [...], std: [...]} or one of the choices", raw, _WHOSE
        )
    return raw


class ClassifierSettings(recipe.RecipeSettings, _ModelSettings):
    """Every setting of `ImageClassifier`: the spec's `training` section and one config, merged.

    The hyperparameters that models declare are settings too. Their default is None, and
    `resolve_model_settings` fills in the model's own default.
    """

    model: Annotated[str, AfterValidator(_check_model)] = Field(
        "cnn",
        description="a network that ships, my_module:MyNet, torchvision:NAME or timm:NAME",
    )
    dataset: Annotated[str, AfterValidator(catalog.check_dataset)] = Field(
        "digits",
        description="a data set that ships, folder:PATH, my_module:load, torchvision:NAME or "
        "hf:NAME",
    )
    data_dir: str | None = Field(
        None,
        description="the folder with the data sets; default $TUNER_DATA, else ~/.cache/tuner",
    )
    image_size: int | None = Field(
        None,
        ge=4,
        le=1024,
        description="height and width in px to which images of your own are resized; default "
        "their own, at most 64",
    )
    image_bits: int | None = Field(
        None,
        ge=8,
        le=16,
        description="bits of a channel that your own images of more than 8 bits use, 12 for many "
        "sensors; default those of the brightest pixel of all images",
    )
    skip_unreadable: bool = Field(
        False,
        description="whether to train without those of your own images that cannot be read",
    )
    split_seed: NonNegativeInt = Field(
        0,
        description="the seed of the split of your own images, the same for every trial",
    )

    train_on: Literal["train", "train+validation", "all"] = Field(
        "train",
        description="the splits that train; with train+validation, as `tuner refit` sets it, or "
        "all, as --final does, nothing is validated and the objective is epochs_trained",
    )

    folds: int | None = Field(
        None,
        ge=2,
        le=20,
        description="cross-validation: an epoch of a trial is a complete training without one of "
        "so many parts of the training and validation images; val_ metrics are means over parts",
    )
    fold_epochs: AtLeastOne | None = Field(
        None,
        description="epochs of a fold; default scheduler.max_t, which then counts folds",
    )
    resplit: bool = Field(
        False,
        description="whether the seed of a trial draws its training and validation split, or folds",
    )

    crops_per_image: int = Field(
        0,
        ge=0,
        le=64,
        description="random crops of each image, of at least crop_scale of its area, whose "
        "features optimizer lbfgs fits beside those of the whole image",
    )

    batch_size: AtLeastOne = Field(
        64, description="images in an optimizer step, over all workers"
    )

    optimizer: Literal["sgd", "sgdw", "adamw", "muon", "lbfgs"] = Field(
        "sgd",
        description="sgd has Nesterov momentum; the weight decay of sgdw and muon does not depend "
        "on lr; lbfgs fits the head of train_layers=head completely, in one epoch, as a regression "
        "on features of variance 1 with the L2 penalty weight_decay",
    )
    lr: PositiveFloat = Field(
        0.1, description="the largest learning rate of the schedule"
    )
    lr_schedule: Literal["constant", "cosine", "step", "one_cycle", "triangular"] = (
        "cosine"
    )
    momentum: BelowOne = Field(
        0.9, description="momentum of the optimizer; for adamw its beta1"
    )
    weight_decay: NonNegativeFloat = Field(
        5e-4, description="how strongly weights decay towards 0; 0 for not at all"
    )
    label_smoothing: BelowOne = Field(
        0.0, description="the share of each label that is spread over all classes"
    )

    start_from: str | None = Field(
        None,
        description="initial weights, from a safetensors file, an export or a saved state dict",
    )
    pretrained: bool = Field(
        False,
        description="whether to begin with the network's own weights, from a package or from the "
        "cache of torchvision or timm",
    )
    weights_sha256: dict[str, str] = Field(
        {},
        description="the SHA-256 of initial weights by their model or file, as a search records "
        "them when it begins; other weights are refused afterwards",
    )
    pixel_stats: Annotated[
        Literal["auto", "data", "imagenet"] | GivenStats,
        BeforeValidator(_parse_pixel_stats),
    ] = Field(
        "auto",
        description="the mean and std that normalise pixels from 0 to 1, as in {mean: [0.5], std: "
        "[0.25]}; or whose: the data's, ImageNet's, or those that the initial weights were trained "
        "with, where these are known",
    )
    train_layers: Literal["all", "head"] = Field(
        "all",
        description="head trains the last linear layer alone, on features that the frozen network "
        "computes once; of the augmentations only flips apply then",
    )
    fit_head: bool = Field(
        False,
        description="whether training begins with the head that fits the features of the initial "
        "weights best",
    )
    layer_decay: UpToOne = Field(
        1.0,
        description="the factor of the learning rate from each layer to the one before it",
    )
    freeze: Annotated[tuple[str, ...], BeforeValidator(_parse_patterns)] = Field(
        (), description="layers, or patterns of parameter names, that do not train"
    )
    unfreeze_epoch: AtLeastOne | None = Field(
        None, description="epochs after which frozen layers train too; default never"
    )

    dtype: Literal["float32", "float64"] = Field(
        "float32", description="the type of the weights"
    )
    precision: Literal["auto", "float32", "tf32", "bf16", "fp16"] = Field(
        "auto",
        description="the precision of the computations, where the device has it; weights stay in "
        "dtype",
    )
    compile: bool = Field(
        False,
        description="whether to compile the forward pass of training with torch.compile",
    )
    epochs: AtLeastOne = Field(
        10, description="epochs that the learning rate's schedule covers"
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**63,
        description="the seed of initial weights, order and augmentation; a search sets it for "
        "each trial",
    )

    def select_fold(self, number: int) -> ClassifierSettings:
        """The settings of the training of one fold; without folds these."""
        changes = {"epochs": self.fold_epochs, "seed": self.seed ^ (number << 32)}
        return self.model_copy(update=changes) if self.folds else self

    @property
    def data(self) -> catalog.DataChoice:
        return catalog.DataChoice(**self.model_dump(include=_OF_DATA))

    @property
    def begins_with_weights(self) -> bool:
        return self.pretrained or self.start_from is not None


def resolve_model_settings(settings: ClassifierSettings) -> dict[str, Any]:
    """The chosen model's own hyperparameters: as set, else the model's default."""
    defaults = find_model_info(settings.model).defaults
    values = {name: getattr(settings, name) for name in defaults}
    return defaults | {
        name: value for name, value in values.items() if value is not None
    }


def build_trial_settings(
    constants: Mapping[str, Any], config: Mapping[str, Any], *, split: int
) -> ClassifierSettings:
    """What one trial trains with. Raises SpecError for settings that cannot work.

    A config may come from a folder that someone else made: it names no images of the user's own.
    """
    name = config.get("dataset")
    if isinstance(name, str) and not catalog.is_shipped(name):
        raise SpecError([build_own_data_fault(name)], "the config")
    return validate_settings(merge_config(constants, config), _SUBJECT, split=split)


def validate_settings(
    values: Mapping[str, Any], what: str, *, split: int = 1
) -> ClassifierSettings:
    """The settings `values` of a trial. Raises SpecError, of `what`, if they cannot work."""
    if faults := check_settings(values, split=split, files=False):
        # A later epoch needs no files
        raise SpecError(faults, what)
    return ClassifierSettings.model_validate(values)


def build_settings_error(*faults: Fault) -> SpecError:
    """The error for settings that cannot work, as the model or its weights show."""
    return SpecError(faults, _SUBJECT)


def check_settings(
    values: Mapping[str, Any],
    *,
    split: int = 1,
    files: bool = True,
    describe: Callable[[catalog.DataChoice], DatasetInfo | None] = catalog.describe,
) -> list[Fault]:
    """Every fault of `values`, the constants merged with one config; keys are relative to them.

    split: stages of the model. files: whether named files and custom networks must exist; the
    latter are imported. describe: returns the description of a data set, or None.
    """
    settings, faults = parse(ClassifierSettings, values)
    faulty = {fault.key for fault in faults}
    if settings is None:
        # The sound values are checked as well, so that all faults are reported at once
        known = ClassifierSettings.model_fields.keys() - faulty
        settings, _ = parse(
            ClassifierSettings, {k: values[k] for k in values if k in known}
        )
    if settings is None:
        return faults
    settings = settings.select_fold(0) if settings.fold_epochs else settings
    faults += _find_combination_faults(settings, faulty, split)
    model = find_model_info(settings.model)
    source = settings.start_from if files else None
    if source is not None and not Path(source).expanduser().exists():
        faults.append(Fault("start_from", "must be a file or an export", source))
    if "model" not in faulty:
        faults += _find_model_faults(settings, model, split)
        if files:
            faults += model.faults(
                resolve_model_settings(settings).get("model_args", {})
            )
    if "dataset" in faulty or not (files or catalog.is_at_hand(settings.dataset)):
        return faults
    try:
        data = describe(settings.data)
    except FaultsError as error:
        return [*faults, *(fault.add_prefix("dataset") for fault in error.faults)]
    if data is not None:
        faults += _find_dataset_faults(settings, data)
        shape = (data.channels, data.image_size)
        if not ("model" in faulty or model.can_take(*shape)):
            has = f"{data.channels}x{data.image_size}x{data.image_size}"
            rule = f"takes {model.images} and dataset {settings.dataset!r} has {has}"
            fitting = sorted(
                name for name, other in MODELS.items() if other.can_take(*shape)
            )
            faults.append(Fault("model", rule, settings.model, tuple(fitting)))
    return faults


# What happens step by step, or before the first one
_STEPWISE = ("fit_head", "mixup", "cutmix", "ema_decay", "clip_grad_norm")

# All that a rule may name beside another setting
COMBINED = ClassifierSettings.model_fields.keys() - {
    "lr",
    "momentum",
    "weight_decay",
    "label_smoothing",
    "flip",
    "vertical_flip",
}


def _find_combination_faults(
    settings: ClassifierSettings, faulty: Collection[str], split: int
) -> Iterator[Fault]:
    """Settings that need another one, or exclude it; of the `faulty` ones nothing is known."""
    epochs = settings.epochs
    is_head = settings.train_layers == "head"
    fp16 = ("precision",) if settings.precision == "fp16" else ()
    in_stages = ("freeze", "compile", *fp16, "train_layers", "fit_head", "folds")
    # By what excludes them, if it is set
    excluded: dict[str, tuple[object, tuple[str, ...]]] = {
        "folds": (settings.folds, ("train_on",)),
        "crop_padding": (settings.crop_padding, ("crop_scale",)),
        "train_layers 'head'": (is_head, ("freeze",)),
        "start_from": (settings.start_from, ("pretrained",)),
        "optimizer 'lbfgs'": (settings.optimizer == "lbfgs", _STEPWISE),
        "resources.split": (split > 1, in_stages),
    }
    needed = {
        "folds": "fold_epochs",
        "fold_epochs": "folds",
        "unfreeze_epoch": "freeze",
    }
    used_by = {
        **dict.fromkeys(("muon_lr", "muon_momentum"), ("optimizer", "muon")),
        **dict.fromkeys(("lr_steps", "lr_step_factor"), ("lr_schedule", "step")),
        "crops_per_image": ("optimizer", "lbfgs"),
    }
    rules = [
        (key, f"cannot be combined with {other}")
        for other, (is_set, keys) in excluded.items()
        for key in (keys if is_set else ())
    ]
    rules += [
        (key, f"needs `{other}`")
        for key, other in needed.items()
        if not (other in faulty or _is_set(settings, other))
    ]
    for key, (owner, user) in used_by.items():
        if owner not in faulty and (value := getattr(settings, owner)) != user:
            rules.append(
                (key, f"is used by {owner} {user!r} alone, and {owner} is {value!r}")
            )
    if settings.dtype == "float64" and settings.precision != "float32":
        rules.append(
            ("precision", "applies to dtype 'float32', and dtype is 'float64'")
        )
    if not settings.begins_with_weights:
        rule = "needs `pretrained` or `start_from`: features come from trained weights"
        rules += [("train_layers", rule), ("fit_head", rule)]
    if settings.optimizer == "lbfgs":
        if not (is_head or "train_layers" in faulty):
            rules.append(
                ("optimizer", "'lbfgs' fits a head alone: needs train_layers 'head'")
            )
        if settings.crop_scale == 1 and "crop_scale" not in faulty:
            rules.append(("crops_per_image", "needs `crop_scale` below 1"))
    latest = {
        "warmup_epochs": settings.warmup_epochs,
        "lr_steps": max(settings.lr_steps or (0,)),
    }
    if "epochs" not in faulty:
        below = f"must be below `epochs`, {epochs}"
        rules += [(key, below) for key, value in latest.items() if value >= epochs]
    for key, rule in rules:
        if _is_set(settings, key):
            yield Fault(key, rule, getattr(settings, key))
    if settings.optimizer == "muon":
        from packaging.version import Version

        least = recipe.MUON_SINCE
        installed = version("torch")
        if Version(installed) < Version(least):
            rule = f"needs torch {least} or newer, and torch {installed} is installed"
            yield Fault("optimizer", rule, "muon")


def _is_set(settings: ClassifierSettings, key: str) -> bool:
    return bool(getattr(settings, key) != ClassifierSettings.model_fields[key].default)


def _find_model_faults(
    settings: ClassifierSettings, info: ModelInfo, split: int
) -> Iterator[Fault]:
    """Settings that the model does not use, and a model that cannot be `split` so often."""
    name = settings.model
    own = info.defaults
    most = info.layers
    uses = (
        f"which uses {', '.join(sorted(own))}" if own else "which has none of its own"
    )
    for key in sorted(_ModelSettings.model_fields.keys() - own.keys()):
        if (value := getattr(settings, key)) is not None:
            yield Fault(key, f"is not used by model {name!r}, {uses}", value)
    if settings.pretrained and not info.has_pretrained:
        yield Fault(
            "pretrained", f"is not used by model {name!r}: set start_from", True
        )
    if settings.layer_decay < 1 and info.parts:
        rule = f"needs layers that follow each other, and {name} has networks side by side: set 1"
        yield Fault("layer_decay", rule, settings.layer_decay)
    if most < split:
        rule = f"can be split into at most {most} stages, not the {split} of `resources.split`"
        fitting = tuple(sorted(n for n, info in MODELS.items() if info.layers >= split))
        yield Fault(
            "model", rule if most > 1 else "cannot be split into stages", name, fitting
        )
    elif split > 1 and resolve_model_settings(settings).get("norm") == "batch":
        rule = "must be 'group' where resources.split is above 1: no stage sees a whole batch"
        yield Fault("norm", rule, "batch")


def build_own_data_fault(name: object) -> Fault:
    """The fault of a data set of the user's own that is not the same for all trials."""
    rule = "may only be searched among those that ship: name your own in `training`"
    return Fault("dataset", rule, name, tuple(sorted(catalog.DATASETS)))


def _find_dataset_faults(
    settings: ClassifierSettings, info: DatasetInfo
) -> Iterator[Fault]:
    name = settings.dataset
    if settings.data_dir is not None and not info.files:
        yield Fault("data_dir", f"is not used by dataset {name!r}", settings.data_dir)
    if settings.image_size not in (None, info.image_size):
        rule = (
            f"is not used by dataset {name!r}, whose images have {info.image_size} px"
        )
        yield Fault("image_size", rule, settings.image_size)
    for key in ("image_bits", "skip_unreadable"):
        if getattr(settings, key) and catalog.is_shipped(name):
            yield Fault(key, f"is not used by dataset {name!r}", getattr(settings, key))
    train = info.train
    searched = info.train + info.validation
    if settings.folds:
        train = searched * (settings.folds - 1) // settings.folds
    limits = {
        "batch_size": (train, "the number of training images"),
        "folds": (searched, "the number of training and validation images"),
        "crop_padding": (info.image_size // 2, "half the image size"),
        "cutout": (info.image_size, "the image size"),
    }
    for key, (most, what) in limits.items():
        value = getattr(settings, key) or 0
        if value > most:
            yield Fault(
                key, f"must be at most {what} of dataset {name!r}, {most}", value
            )
    if isinstance(stats := settings.pixel_stats, GivenStats):
        values = len(stats.mean)
        if info.channels not in (1, values):
            rule = f"must have a value for each channel of dataset {name!r}, {info.channels}"
            yield Fault("pixel_stats.mean", rule, list(stats.mean))
    weights = settings.class_weights
    if isinstance(weights, tuple) and len(weights) != info.num_classes:
        rule = f"must be as many as dataset {name!r} has classes, {info.num_classes}"
        yield Fault("class_weights", rule, len(weights))
    if settings.cutmix and info.image_size < 2:
        rule = f"needs images of at least 2x2, and those of dataset {name!r} are 1x1"
        yield Fault("cutmix", rule, settings.cutmix)
    if "top5_accuracy" in settings.metrics and info.num_classes <= 5:
        rule = f"top5_accuracy needs more than 5 classes, and dataset {name!r} has"
        yield Fault("metrics", f"{rule} {info.num_classes}")
