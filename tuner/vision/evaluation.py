"""The metrics of a model: a trial's while it trains, or an exported one."""

# N images

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tuner.trial.torch_compat import HalfScaler
from tuner.vision.augment import Augmentation
from tuner.vision.batches import Batcher, ImageSet
from tuner.vision.blueprint import Blueprint
from tuner.vision.collectives import Ranks
from tuner.vision.epochs import seeded, shards
from tuner.vision.loss import training_loss
from tuner.vision.new_model import set_layout
from tuner.vision.precision import Precision, cast_weights, precision_for, weights_in
from tuner.vision.replica import Replica, Setup
from tuner.vision.settings import ClassifierSettings

if TYPE_CHECKING:
    from tuner.vision.pipeline import Stage


@torch.inference_mode()
def evaluate(part: Replica | Stage, rows_N: Tensor, *, precision: Precision) -> dict[str, float]:
    """The metrics of the images `rows_N` by their names; each image counts once, on one rank."""
    part.eval()
    loss, ranks = part.setup.loss, part.setup.ranks
    sums = loss.nothing(ranks.device)
    with precision.applied(), precision.forward():
        for shard in shards(len(rows_N), **part.share(part.evaluation_batch)):
            if shard.count:
                sums += part.measure(rows_N[shard.positions])
    return loss.metrics(ranks.reduced(sums.tolist()), count=len(rows_N))


def measure(
    model: nn.Module,
    plan: Blueprint,
    settings: ClassifierSettings,
    images: ImageSet,
    device: torch.device,
) -> dict[str, float]:
    """`ImageClassifier.test` of a trained model of `plan`.

    The images are normalised by the mean and std of `images.info`. Settings of the training have no
    effect.
    """
    settings = settings.model_copy(update={"class_weights": None, "compile": False})
    precision, ranks = precision_for(settings, device), Ranks(0, 1, device)
    dtype = weights_in(settings, precision)
    model = cast_weights(model.to(device), dtype)
    set_layout(model, plan, precision)
    augmentation = Augmentation.of(settings)
    batcher = Batcher(images, dtype=dtype, augmentation=augmentation, device=device)
    loss = training_loss(settings, images, device)
    scaler = HalfScaler(device.type, enabled=False)
    part = Replica(Setup(model, settings, ranks, batcher, loss, precision), scaler)
    rows_N = images.splits["test"].to(images.rows_NP.device)
    with seeded(settings.seed, device):
        measured = evaluate(part, rows_N, precision=precision)
    return {f"test_{name}": value for name, value in measured.items()} | images.baseline("test")
