"""Pieces of training recipes, each off by default."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
)

from tuner.spec.plain_values import is_number
from tuner.spec.settings import Settings, bad_value, parse_names
from tuner.vision.metrics import OPTIONAL_METRICS

# Of the epochs: where the rate steps down by default, as in He et al. 2016
STEPS = (1 / 2, 3 / 4)
STEP_FACTOR = 0.1
MUON_LR = 0.02
MUON_MOMENTUM = 0.95  # the defaults, as in Jordan et al. 2024
MUON_SINCE = "2.9"  # of torch
MOST_ALPHA = 100  # of a Beta distribution: its values are all but 1/2 by then

BelowOne = Annotated[float, Field(ge=0, lt=1)]  # and at least 0
UpToOne = Annotated[float, Field(gt=0, le=1)]  # and above 0
# Of a Beta distribution; 0 for none
Alpha = Annotated[float, Field(ge=0, le=MOST_ALPHA)]


def _parse_numbers(raw: object) -> tuple[float, ...] | None:
    """The numbers of a list without negative ones, or None."""
    if not isinstance(raw, list | tuple) or not raw:
        return None
    return tuple(raw) if all(is_number(n) and 0 <= n < math.inf for n in raw) else None


def _parse_lr_steps(raw: object) -> object:
    if raw is None:
        return None
    steps = _parse_numbers([raw] if isinstance(raw, int | float) else raw)
    if (
        not steps
        or steps[0] == 0
        or any(later <= earlier for earlier, later in pairwise(steps))
    ):
        raise bad_value("must be epochs above 0, each above the one before it", raw)
    return steps


def _parse_class_weights(raw: object) -> object:
    if raw is None or raw == "balanced":
        return raw
    weights = _parse_numbers(raw)
    if not weights or not any(weights):
        raise bad_value(
            "must be 'balanced' or a list of numbers, none below 0 and not all 0", raw
        )
    return weights


class Augmentation(Settings):
    """What is drawn for each training image: crops, flips, cutout, mixes with another."""

    crop_padding: NonNegativeInt = Field(
        0, description="black px that are added on each side before a random crop"
    )
    crop_scale: UpToOne = Field(
        1.0,
        description="the least share of an image's area in a random crop, which is resized to the "
        "image's size; 1 for no crops",
    )
    flip: bool = Field(
        False, description="whether to mirror each image with probability 1/2"
    )
    vertical_flip: bool = Field(
        False,
        description="whether to turn each image upside down with probability 1/2, for images that "
        "have no up and down",
    )
    cutout: NonNegativeInt = Field(
        0,
        description="side in px of a square of each image that is set to the mean; 0 for none",
    )
    mixup: Alpha = Field(
        0.0,
        description="blend pairs of images in shares drawn from Beta(mixup, mixup); 0 for none",
    )
    cutmix: Alpha = Field(
        0.0,
        description="paste a part of another image, its area drawn from Beta(cutmix, cutmix); 0 "
        "for none",
    )


class RecipeSettings(Augmentation):
    """A recipe's settings beside the optimizer, its rate and its decay."""

    test_time_flip: bool = Field(
        False,
        description="whether to evaluate the mean of the logits of an image and its mirror image; "
        "with vertical_flip of both upside down, too",
    )
    warmup_epochs: NonNegativeFloat = Field(
        0.0,
        description="epochs in which the rate first rises to lr; 0 for as many as lr_schedule has",
    )
    lr_steps: Annotated[tuple[float, ...] | None, BeforeValidator(_parse_lr_steps)] = (
        Field(
            None,
            description="for lr_schedule step: the epochs after which the rate falls; default half "
            "and three quarters of all epochs",
        )
    )
    lr_step_factor: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="for lr_schedule step: the factor by which the rate falls; default 0.1",
    )
    muon_lr: PositiveFloat | None = Field(
        None,
        description="for optimizer muon: the rate of the weights of hidden layers; default 0.02",
    )
    muon_momentum: BelowOne | None = Field(
        None,
        description="for optimizer muon: the momentum of the same weights; default 0.95",
    )
    decay_norms_and_biases: bool = Field(
        True, description="whether norm layers and biases decay, too"
    )
    clip_grad_norm: NonNegativeFloat = Field(
        0.0, description="the largest norm of all gradients; 0 for no limit"
    )
    ema_decay: BelowOne = Field(
        0.0,
        description="evaluate a moving average of the weights that keeps this share at each step; "
        "0 for none",
    )
    class_weights: Annotated[
        Literal["balanced"] | tuple[float, ...] | None,
        BeforeValidator(_parse_class_weights),
    ] = Field(
        None,
        description="weights of the classes in the loss: balanced, or a list with one for each "
        "class",
    )
    metrics: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda raw: parse_names(raw, OPTIONAL_METRICS, "metric")),
    ] = Field(
        (),
        description="metrics to report as well, as val_NAME and test_NAME: "
        f"{', '.join(OPTIONAL_METRICS)}",
    )
    latency: bool = Field(
        False,
        description="whether to report latency_ms, the milliseconds from the pixels of one image "
        "to its logits on the trial's device; set where a limit or the objective names it",
    )
