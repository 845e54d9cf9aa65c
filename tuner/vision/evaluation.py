"""The metrics of a model, a trial's while it trains or an exported one, and its predictions."""

# N images, K classes, P = H * W * C bytes of one image

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tuner.experiment.results.statistics import CONFUSION, MISTAKES
from tuner.vision.batches import ImageSet, Normaliser
from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import seeded, shards
from tuner.vision.label_check import MOST_MEASURED, mistakes
from tuner.vision.loss import CrossEntropy, Measured, Measures
from tuner.vision.micro_batch import MicroBatch
from tuner.vision.new_model import set_layout
from tuner.vision.norms import renew_statistics
from tuner.vision.precision import Precision, cast_weights, precision_for, weights_in
from tuner.vision.replica import Replica, evaluation_batch
from tuner.vision.settings import ClassifierSettings

_TIMED = 60  # runs of one image
RENEWAL_BATCH = 125  # images of the batches whose mean statistics BatchNorm gets

if TYPE_CHECKING:
    from tuner.vision.pipeline import Stage


@torch.inference_mode()
def evaluate(part: Replica | Stage, rows_N: Tensor, *, precision: Precision) -> Measured:
    """What is measured of the images `rows_N`; each image counts once, on one rank."""
    part.eval()
    loss, ranks = part.setup.loss, part.setup.ranks
    sums = loss.nothing(ranks.device)
    with precision.applied(), precision.forward():
        for shard in shards(len(rows_N), **part.share(part.evaluation_batch)):
            if shard.count:
                sums += part.measure(rows_N[shard.positions])
    return loss.measured(ranks.reduced(sums.tolist()), count=len(rows_N))


@torch.inference_mode()
def logits_of(part: Replica, rows_N: Tensor, *, precision: Precision) -> Tensor:
    """logits_NK of the images `rows_N`, at least in float32."""
    part.eval()
    with precision.applied(), precision.forward():
        return torch.cat(
            [part.logits(each).float() for each in rows_N.split(part.evaluation_batch)]
        )


def measure(
    model: nn.Module,
    plan: Blueprint,
    settings: ClassifierSettings,
    images: ImageSet,
    device: torch.device,
    *,
    names: Sequence[str] = (),
    temperature: float = 1.0,
) -> tuple[dict[str, float], dict[str, Any]]:
    """`ImageClassifier.test` of a trained model of `plan`, its logits divided by `temperature`.

    names: of all images by row, if they have any. Returns its metrics, and its `confusion` and
    `mistakes` by name.

    The images are normalised by the mean and std of `images.info`. Settings of the training have no
    effect.
    """
    stats = {"mean": images.info.mean, "std": images.info.std}
    predictor = Predictor(model, plan, settings, device, **stats, temperature=temperature)
    rows_N = images.splits["test"]
    logits_NK, labels_N = predictor.logits_of(images, rows_N)
    measures = Measures(settings.metrics, images.info.num_classes)
    loss = CrossEntropy(logits_NK.dtype, measures=measures)
    sums = loss.nothing(logits_NK.device)
    parts = logits_NK.split(predictor.batch), labels_N.split(predictor.batch)
    for some_NK, some_N in zip(*parts, strict=True):
        sums += loss.evaluated(some_NK, some_N)
    measured = loss.measured(sums.tolist(), count=len(rows_N))
    details: dict[str, Any] = {CONFUSION: measured.confusion(images.info.classes)}
    if names:
        details[MISTAKES] = mistakes(logits_NK[:MOST_MEASURED], images, rows_N, names)
    return measured.of_test() | images.baseline("test"), details


def usable_device() -> torch.device:
    """Where a trained model is evaluated: a GPU if this process sees one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Predictor:
    """The probabilities of a trained model of `plan`, computed as `measure` does.

    mean, std: of each channel, for pixels from 0 to 1. temperature: divides the logits. batch:
    images that it computes at once, if its memory allows.
    """

    def __init__(
        self,
        model: nn.Module,
        plan: Blueprint,
        settings: ClassifierSettings,
        device: torch.device,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        temperature: float = 1.0,
    ) -> None:
        self._model, self._settings, self._device = model, settings, device
        self._precision = precision_for(settings, device)
        dtype = weights_in(settings, self._precision)
        cast_weights(model.to(device).eval(), dtype)
        set_layout(model, plan, self._precision)
        self._normalise = Normaliser(mean, std, size=plan.image_size, dtype=dtype, device=device)
        self._loss = replace(CrossEntropy.of(settings), temperature=temperature)
        self.batch = evaluation_batch(device)
        self._micro = MicroBatch(self.batch, device=device, purpose="prediction")

    def __call__(self, rows_NP: Tensor) -> Tensor:
        """probabilities_NK, on the CPU, of images as rows of bytes."""
        return self.logits(rows_NP).softmax(1)

    @torch.inference_mode()
    def logits(self, rows_NP: Tensor) -> Tensor:
        """logits_NK, on the CPU, of images as rows of bytes."""
        with (
            self._precision.applied(),
            self._precision.forward(),
            seeded(self._settings.seed, self._device),
        ):
            return self._micro.run(partial(self._logits, rows_NP.to(self._device))).cpu()

    def logits_of(self, images: ImageSet, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        """(logits_NK, labels_N), on the CPU, of the images `rows_N`."""
        parts = [self.logits(images.rows_NP[some_N]) for some_N in rows_N.split(self.batch)]
        return torch.cat(parts), images.labels_N[rows_N].cpu()

    def renew_norms(self, layers: Collection[str], rows_NP: Tensor) -> None:
        """Give the BatchNorm `layers` the statistics of these images, in rows of bytes."""
        parts = rows_NP.tensor_split(ceil(len(rows_NP) / RENEWAL_BATCH))
        batches = (self._normalise(part_NP.to(self._device)) for part_NP in parts)
        with self._precision.applied(), self._precision.forward():
            renew_statistics(self._model, layers, batches)

    def _logits(self, rows_NP: Tensor, size: int) -> Tensor:
        parts = []
        for part_NP in rows_NP.split(size):
            views = [self._model(view) for view in self._loss.views(self._normalise(part_NP))]
            parts.append(self._loss.averaged(views).to(self._loss.dtype))
        return torch.cat(parts)


def latency_ms(settings: ClassifierSettings, plan: Blueprint, device: torch.device) -> float:
    """The milliseconds from the pixels of one image to its logits on `device`: the median of some
    runs, of a model of `plan` with initial weights.
    """
    with seeded(settings.seed, device):
        model = plan.initial().eval()
    grey = [0.5] * plan.in_channels
    predictor = Predictor(model, plan, settings, device, mean=grey, std=grey)
    row_1P = torch.zeros(1, plan.in_channels * plan.image_size**2, dtype=torch.uint8)
    times = []
    for _ in range(_TIMED):
        started = time.perf_counter()
        predictor.logits(row_1P)
        times.append(time.perf_counter() - started)
    return 1000 * median(times[len(times) // 3 :])  # the first ones are slower
