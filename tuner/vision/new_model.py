"""A model as a trial begins with it: drawn by the trial's seed, and ready for its images."""

from __future__ import annotations

import torch
from torch import nn

from tuner.vision.batches import Batcher
from tuner.vision.blueprint import Blueprint
from tuner.vision.collectives import Ranks
from tuner.vision.norms import set_norm_momentum
from tuner.vision.precision import Precision, cast_weights, weights_in
from tuner.vision.randomness import seeded
from tuner.vision.settings import ClassifierSettings
from tuner.wording import some_of

PREPARING = 1000  # training images that a model may learn something from before it trains


def new_model(
    settings: ClassifierSettings,
    plan: Blueprint,
    batcher: Batcher,
    *,
    precision: Precision,
    ranks: Ranks,
    images: int,
    split: int,
) -> nn.Module:
    """The model of `plan` on the device of `ranks`; on the host where it is `split` into stages.

    images: how many an epoch trains on. Raises SpecError for a network from elsewhere that cannot
    train on them.
    """
    with seeded(settings.seed):
        model = cast_weights(plan.initial(), weights_in(settings, precision))
    set_norm_momentum(model, settings.norm_momentum)
    if split == 1:
        model.to(ranks.device)
    set_layout(model, plan, precision)
    if plan.info.foreign:
        from tuner.vision.tryout import check_one_image, without_gradient

        unused = without_gradient(model, plan, context=precision.forward)
        if unused and ranks.rank == 0:
            print(f"warning: no gradient reaches {some_of(unused)} of {plan.name}")
        last = images % settings.batch_size or settings.batch_size
        if min(settings.batch_size, last) // ranks.world_size <= 1:
            check_one_image(model, plan, batch_size=settings.batch_size)
    if plan.info.prepare is not None:
        plan.info.prepare(model, batcher.first(PREPARING))
    return model


def set_layout(model: nn.Module, plan: Blueprint, precision: Precision) -> None:
    """Store the weights as images are, with their channels last, if the network can use them so.

    Raises SpecError for a network from elsewhere that does not take the images of `plan`.
    """
    if plan.info.foreign:
        from tuner.vision.tryout import fit_in

        fit_in(model, plan, context=precision.forward)
    else:
        # torch has the argument, its stubs do not
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
