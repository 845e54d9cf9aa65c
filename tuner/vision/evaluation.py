"""The metrics of a model, a trial's while it trains or an exported one, and its predictions.

The images that it gets most wrong, and labels that are probably wrong, are lists of plain values,
as a test split's record has them:

    mistakes         [{file, label, predicted, probability}]    the surest mistakes first
    doubtful_labels  [{file, label, suggested, probability}]    the most doubtful first
    doubtful_share   of the labels for which heads name another class: low if these are often wrong
"""

# N images, V views, F features, K classes, P = H * W * C bytes of one image

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from tuner.experiment.results.split_details import (
    CONFUSION,
    DOUBTFUL_LABELS,
    DOUBTFUL_SHARE,
    MISTAKES,
)
from tuner.spec.quotas import count_usable_cpus
from tuner.vision.batches import ImageSet, build_normaliser
from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import iterate_shards, seed_generators
from tuner.vision.features import Features
from tuner.vision.learning_curve import FOLDS, MOST_AT_ONCE, HeldOutHeads
from tuner.vision.loss import CrossEntropy, Measured, measure_logits
from tuner.vision.micro_batch import MicroBatch
from tuner.vision.model_summary import measure_median_s
from tuner.vision.models._model import PixelStats
from tuner.vision.new_model import set_layout
from tuner.vision.norms import renew_statistics
from tuner.vision.precision import (
    Precision,
    cast_weights,
    choose_dtype,
    choose_precision,
)
from tuner.vision.replica import Replica, choose_evaluation_batch
from tuner.vision.settings import ClassifierSettings

if TYPE_CHECKING:
    from tuner.vision.pipeline import Stage

_TIMED = 60  # runs of one image
RENEWAL_BATCH = 125  # images of the batches whose mean statistics BatchNorm gets
_MOST_MISTAKES = 24
_MOST_DOUBTFUL = 100
# Between the probabilities of the suggested and of the given class. A network that is often wrong
# would make the list long and mostly wrong without it
_LEAST_MARGIN = 0.5


class Likeliest(NamedTuple):
    """The likeliest class of each image, and its probability, on the CPU."""

    class_N: Tensor
    probability_N: Tensor

    @classmethod
    def find(cls, logits_NK: Tensor) -> Self:
        probability_N, class_N = logits_NK.float().softmax(1).max(1)
        return cls(class_N.cpu(), probability_N.cpu())

    @classmethod
    def join(cls, batches: Sequence[Self]) -> Self:
        return cls(*(torch.cat(columns) for columns in zip(*batches, strict=True)))


@torch.inference_mode()
def evaluate(
    part: Replica | Stage,
    rows_N: Tensor,
    *,
    precision: Precision,
    likeliest: list[Likeliest] | None = None,
) -> Measured:
    """What is measured of the images `rows_N`; each image counts once, on one rank.

    likeliest: gets the class of each of this rank's images, by batch.
    """
    part.eval()
    loss = part.setup.loss
    ranks = part.setup.ranks
    sums = loss.init_sums(ranks.device)
    with precision.apply(), precision.apply_autocast():
        for shard in iterate_shards(
            len(rows_N), batch_size=part.evaluation_batch, **part.share
        ):
            if not shard.count:
                continue
            batch_N = rows_N[shard.positions]
            if (logits_NK := part.compute_logits(batch_N)) is None:
                continue
            sums += loss.compute_sums(
                logits_NK, part.setup.batcher.select_labels(batch_N)
            )
            if likeliest is not None:
                likeliest.append(Likeliest.find(logits_NK))
    return loss.compute_metrics(ranks.reduce(sums.tolist()), count=len(rows_N))


def measure(
    predictor: Predictor,
    images: ImageSet,
    *,
    metrics: tuple[str, ...],
    names: Sequence[str] = (),
) -> tuple[dict[str, float], dict[str, Any]]:
    """`ImageClassifier.test` of a trained model.

    metrics: as in the settings. names: of all images by row, if they have any. Returns its metrics,
    and its `confusion` and `mistakes` by name.
    """
    rows_N = images.splits["test"]
    logits_NK, labels_N = predictor.predict_images(images, rows_N)
    classes = images.info.num_classes
    measured = measure_logits(logits_NK, labels_N, metrics=metrics, classes=classes)
    details: dict[str, Any] = {
        CONFUSION: measured.describe_confusion(images.info.classes)
    }
    if names:
        details[MISTAKES] = list_mistakes(
            Likeliest.find(logits_NK), images, rows_N, names
        )
    return measured.list_test_metrics() | images.describe_split("test"), details


def prepare_device(cpus: float | None = None) -> torch.device:
    """Where a trained model is evaluated: a GPU if this process sees one, else the CPU.

    Limits torch to as many threads as `cpus`, by default those that this process may use.
    """
    threads = count_usable_cpus() if cpus is None else max(1, int(cpus))
    torch.set_num_threads(min(threads, torch.get_num_threads()))
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Predictor:
    """The logits of a trained model of `plan`. Settings of its training have no effect.

    stats: mean and std of each channel, for pixels from 0 to 1. temperature: divides the logits.
    batch: images that it computes at once, if its memory allows.
    """

    def __init__(
        self,
        model: nn.Module,
        plan: Blueprint,
        settings: ClassifierSettings,
        device: torch.device,
        stats: PixelStats,
        *,
        temperature: float = 1.0,
    ) -> None:
        self._model = model
        self._settings = settings
        self._device = device
        self._precision = choose_precision(settings, device)
        dtype = choose_dtype(settings)
        cast_weights(model.to(device).eval(), dtype)
        set_layout(model, plan, self._precision)
        self._normalise = build_normaliser(
            stats, size=plan.image_size, dtype=dtype, device=device
        )
        self._loss = replace(CrossEntropy.build(settings), temperature=temperature)
        self.batch = choose_evaluation_batch(device, plan.image_size)
        self._micro = MicroBatch(self.batch, device=device, purpose="prediction")

    @torch.inference_mode()
    def predict_logits(self, rows_NP: Tensor) -> Tensor:
        """logits_NK, on the CPU, of images as rows of bytes."""
        with (
            self._precision.apply(),
            self._precision.apply_autocast(),
            seed_generators(self._settings.seed, self._device),
        ):
            return self._micro.compute(
                rows_NP.to(self._device), self._compute_logits
            ).cpu()

    def predict_images(self, images: ImageSet, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        """(logits_NK, labels_N), on the CPU, of the images `rows_N`."""
        parts = [
            self.predict_logits(images.rows_NP[some_N])
            for some_N in rows_N.split(self.batch)
        ]
        return torch.cat(parts), images.labels_N[rows_N].cpu()

    def renew_norms(self, layers: Collection[str], rows_NP: Tensor) -> None:
        """Give the BatchNorm `layers` the statistics of these images, in rows of bytes."""
        parts = rows_NP.tensor_split(ceil(len(rows_NP) / RENEWAL_BATCH))
        batches = (self._normalise(part_NP.to(self._device)) for part_NP in parts)
        with self._precision.apply(), self._precision.apply_autocast():
            renew_statistics(self._model, layers, batches)

    def _compute_logits(self, rows_NP: Tensor) -> Tensor:
        return self._loss.compute_logits(self._model, self._normalise(rows_NP)).to(
            self._loss.dtype
        )


def measure_latency_ms(
    settings: ClassifierSettings, plan: Blueprint, device: torch.device
) -> float:
    """The milliseconds from the pixels of one image to its logits on `device`: the median of some
    runs, of a model of `plan` with initial weights.
    """
    with seed_generators(settings.seed, device):
        model = plan.initialize_model().eval()
    grey = (0.5,) * plan.in_channels
    predictor = Predictor(model, plan, settings, device, (grey, grey))
    row_1P = torch.zeros(1, plan.in_channels * plan.image_size**2, dtype=torch.uint8)
    return 1000 * measure_median_s(
        partial(predictor.predict_logits, row_1P), times=_TIMED
    )


def list_mistakes(
    likeliest: Likeliest, images: ImageSet, rows_N: Tensor, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The images that a model gets most wrong, by the probability of the wrong class; at most 24.

    likeliest: of the images `rows_N`. names: of all images of the set, by row.
    """
    rows_N = rows_N.cpu()
    predicted_N, probability_N = likeliest
    wrong_N = (predicted_N != images.labels_N.cpu()[rows_N]).nonzero().flatten()
    worst_N = wrong_N[probability_N[wrong_N].argsort(descending=True)][:_MOST_MISTAKES]
    chosen = predicted_N[worst_N], probability_N[worst_N]
    return _list_images(images, names, rows_N[worst_N], "predicted", chosen)


def _list_images(
    images: ImageSet,
    names: Sequence[str],
    rows_N: Tensor,
    key: str,
    chosen: tuple[Tensor, Tensor],
) -> list[dict[str, Any]]:
    """An entry for each image; chosen: a class, under `key` in the entry, and its probability."""
    classes = images.info.classes
    columns = (rows_N, images.labels_N.cpu()[rows_N], *chosen)
    return [
        {
            "file": names[row],
            "label": classes[label],
            key: classes[other],
            "probability": p,
        }
        for row, label, other, p in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def find_doubtful_labels(
    features: Features, images: ImageSet, names: Sequence[str]
) -> dict[str, Any]:
    """The images whose labels are probably wrong, at most 100, and their share of all doubts.

    Doubtful is a label beside which another class is likelier by 0.5, by `HeldOutHeads` on up to
    2,000 images at once.
    """
    labels_N = images.labels_N.cpu()
    probabilities_NK = torch.empty(len(labels_N), images.info.num_classes)
    blocks = ceil(len(labels_N) / MOST_AT_ONCE)
    for block in range(blocks):
        rows_N = torch.arange(block, len(labels_N), blocks)  # of all classes
        probabilities_NK[rows_N] = (
            HeldOutHeads(features, images, rows_N).compute_scores()[0].clamp(0, 1)
        )
    given_N = probabilities_NK.gather(1, labels_N[:, None]).flatten()
    probability_N, suggested_N = probabilities_NK.max(1)
    margin_N = probability_N - given_N
    sizes_K = torch.bincount(labels_N, minlength=images.info.num_classes)
    is_judged_N = sizes_K[labels_N] >= FOLDS  # other heads have seen the class
    is_wrong_N = is_judged_N & (suggested_N != labels_N)
    is_doubtful_N = is_wrong_N & (margin_N >= _LEAST_MARGIN)
    doubtful_N = is_doubtful_N.nonzero().flatten()
    worst_N = doubtful_N[margin_N[doubtful_N].argsort(descending=True)][:_MOST_DOUBTFUL]
    chosen = suggested_N[worst_N], probability_N[worst_N]
    return {
        DOUBTFUL_LABELS: _list_images(images, names, worst_N, "suggested", chosen),
        DOUBTFUL_SHARE: len(doubtful_N) / max(int(is_wrong_N.sum()), 1),
    }
