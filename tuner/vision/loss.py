"""The training loss, and the metrics of an evaluation.

The metrics follow from counts that add up over batches and ranks: a confusion matrix and the images
whose class is among the five likeliest. They have scikit-learn's names.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tuner.experiment.results.split_details import MOST
from tuner.vision.augment import build_views
from tuner.vision.batches import ImageSet
from tuner.vision.precision import choose_dtype
from tuner.vision.settings import ClassifierSettings


class Measured(NamedTuple):
    """The mean loss, the accuracy and further metrics; the confusion matrix of few classes."""

    metrics: dict[str, float]
    matrix: list[list[int]] | None

    def list_test_metrics(self) -> dict[str, float]:
        return {f"test_{name}": value for name, value in self.metrics.items()}

    def describe_confusion(self, classes: Sequence[str]) -> dict[str, Any] | None:
        """The matrix as a record has it, or None."""
        return (
            {"classes": list(classes), "matrix": self.matrix} if self.matrix else None
        )


@dataclass(frozen=True, slots=True, eq=False)
class CrossEntropy:
    """Sums over images, computed in `dtype`, since autocast's half precision has too few digits.

    smoothing, weights_K: of the labels and the classes, in training only. test_time_flip: evaluate
    the mean of the logits of an image and its mirror image, and with vertical_flip of both upside
    down. temperature: divides the logits of an evaluation. metrics: further ones of an evaluation,
    of `recipe.OPTIONAL_METRICS`; classes: their number, 0 for no confusion matrix.
    """

    dtype: torch.dtype
    smoothing: float = 0.0
    test_time_flip: bool = False
    vertical_flip: bool = False
    weights_K: Tensor | None = None
    temperature: float = 1.0
    metrics: tuple[str, ...] = ()
    classes: int = 0

    @classmethod
    def build(cls, settings: ClassifierSettings) -> Self:
        """The loss of `settings`, without weights of classes and further metrics."""
        return cls(
            choose_dtype(settings),
            settings.label_smoothing,
            settings.test_time_flip,
            settings.vertical_flip,
        )

    def compute_training_loss(self, logits_NK: Tensor, targets: Tensor) -> Tensor:
        """The sum of the minimised loss; targets: labels_N, or shares_NK of the classes."""
        return F.cross_entropy(
            logits_NK.to(self.dtype),
            targets,
            weight=self.weights_K,
            reduction="sum",
            label_smoothing=self.smoothing,
        )

    def build_views(self, x_NCHW: Tensor) -> list[Tensor]:
        """The variants of these images that an evaluation averages over."""
        return build_views(
            x_NCHW,
            mirrored=self.test_time_flip,
            upside_down=self.test_time_flip and self.vertical_flip,
        )

    def compute_logits(
        self, model: Callable[[Tensor], Tensor], x_NCHW: Tensor
    ) -> Tensor:
        """logits_NK of these images as they are evaluated."""
        return self.average_views([model(view) for view in self.build_views(x_NCHW)])

    def average_views(self, views: Sequence[Tensor]) -> Tensor:
        """The logits_NK of the images by those of each of their `views`."""
        return (torch.stack(list(views)) / self.temperature).mean(0)

    @property
    def _counts_matrix(self) -> bool:
        return bool(self.metrics) or 0 < self.classes <= MOST

    def compute_sums(self, logits_NK: Tensor, labels_N: Tensor) -> Tensor:
        """(sum of the loss, number right, further counts), in float64 like `init_sums`."""
        loss = F.cross_entropy(logits_NK.to(self.dtype), labels_N, reduction="sum")
        predicted_N = logits_NK.argmax(1)
        sums = torch.stack([loss.double(), (predicted_N == labels_N).sum().double()])
        if not self._counts_matrix:
            return sums
        likeliest_N5 = logits_NK.topk(min(5, self.classes), dim=1).indices
        among = (likeliest_N5 == labels_N[:, None]).sum().double()
        # The number of images of class i (row) predicted as j (column), one row after the other
        matrix = torch.zeros(
            self.classes**2, dtype=torch.float64, device=labels_N.device
        )
        positions_N = labels_N * self.classes + predicted_N
        matrix.index_add_(
            0, positions_N, torch.ones_like(positions_N, dtype=torch.float64)
        )
        return torch.cat([sums, among.view(1), matrix])

    def init_sums(self, device: torch.device) -> Tensor:
        """The result of `evaluated` for no images."""
        size = 3 + self.classes**2 if self._counts_matrix else 2
        return torch.zeros(size, dtype=torch.float64, device=device)

    def compute_metrics(self, sums: Sequence[float], *, count: int) -> Measured:
        loss, right, *counts = sums
        metrics = {"loss": loss / count, "accuracy": right / count}
        if not counts:
            return Measured(metrics, None)
        among, *matrix = counts
        matrix_KK = torch.tensor(matrix, dtype=torch.float64).view(
            self.classes, self.classes
        )
        right_K = matrix_KK.diagonal()
        sizes_K = matrix_KK.sum(1)
        both_K = sizes_K + matrix_KK.sum(0)  # 2 TP + FP + FN
        known = {
            "top5_accuracy": among / count,
            "balanced_accuracy": float((right_K / sizes_K)[sizes_K > 0].mean()),
            "macro_f1": float((2 * right_K / both_K)[both_K > 0].mean()),
        }
        metrics |= {name: known[name] for name in self.metrics}
        return Measured(
            metrics, matrix_KK.long().tolist() if self.classes <= MOST else None
        )


def measure_logits(
    logits_NK: Tensor, labels_N: Tensor, *, metrics: tuple[str, ...], classes: int
) -> Measured:
    loss = CrossEntropy(torch.float64, metrics=metrics, classes=classes)
    return loss.compute_metrics(
        loss.compute_sums(logits_NK, labels_N).tolist(), count=len(labels_N)
    )


def build_training_loss(
    settings: ClassifierSettings, images: ImageSet, device: torch.device
) -> CrossEntropy:
    """The loss and the metrics of `settings` on a device."""
    loss = CrossEntropy.build(settings)
    classes = images.info.num_classes
    weights_K = None
    if settings.class_weights is not None:
        labels_N = images.labels_N.cpu()[images.splits["train"]]
        weights_K = compute_class_weights(
            settings.class_weights, labels_N, classes=classes
        )
        weights_K = weights_K.to(device, loss.dtype)
    return replace(loss, weights_K=weights_K, metrics=settings.metrics, classes=classes)


def compute_class_weights(
    setting: str | Sequence[float], labels_N: Tensor, *, classes: int
) -> Tensor:
    """weights_K of the classes in the loss, in float64.

    "balanced" weighs a class by the inverse of its share of the training labels `labels_N`:
    n / (K n_k) for n_k of n images. All weights have mean 1 over the images, so that `lr` keeps its
    meaning.
    """
    counts_K = torch.bincount(labels_N, minlength=classes).double()
    if isinstance(setting, str):
        weights_K = torch.where(counts_K > 0, 1 / counts_K, 0)
    else:
        weights_K = torch.tensor(setting, dtype=torch.float64)
    return weights_K * (counts_K.sum() / (weights_K * counts_K).sum())
