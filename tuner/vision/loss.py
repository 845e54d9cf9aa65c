"""The training loss, and the metrics of an evaluation.

The metrics follow from counts that add up over batches and ranks: a confusion matrix and the images
whose class is among the five likeliest. They have the names of scikit-learn.
"""

# N batch, K classes
# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tuner.vision.batches import ImageSet
from tuner.vision.settings import ClassifierSettings


@dataclass(frozen=True, slots=True)
class Measures:
    """The metrics `names`, of `recipe.OPTIONAL_METRICS`, for labels of so many classes."""

    names: tuple[str, ...] = ()
    classes: int = 0

    @property
    def size(self) -> int:
        """How many counts there are."""
        return 1 + self.classes**2 if self.names else 0

    def counts(self, logits_NK: Tensor, labels_N: Tensor) -> Tensor:
        """What is to be summed over all images, in float64; empty where no metric is named."""
        if not self.names:
            return logits_NK.new_zeros(0, dtype=torch.float64)
        likeliest_N5 = logits_NK.topk(min(5, self.classes), dim=1).indices
        among = (likeliest_N5 == labels_N[:, None]).sum()
        matrix_KK = confusion_matrix(logits_NK.argmax(1), labels_N, classes=self.classes)
        return torch.cat([among.double().view(1), matrix_KK.flatten()])

    def metrics(self, sums: Sequence[float]) -> dict[str, float]:
        """The metrics by the sums of the counts of all images."""
        if not self.names:
            return {}
        among, *matrix = sums
        matrix_KK = torch.tensor(matrix, dtype=torch.float64).view(self.classes, self.classes)
        known = {
            "top5_accuracy": among / float(matrix_KK.sum()),
            "balanced_accuracy": balanced_accuracy(matrix_KK),
            "macro_f1": macro_f1(matrix_KK),
        }
        return {name: known[name] for name in self.names}


NONE = Measures()


def confusion_matrix(predicted_N: Tensor, labels_N: Tensor, *, classes: int) -> Tensor:
    """matrix_KK in float64: how many images of class i (row) were taken for class j (column)."""
    ones_N = torch.ones(len(labels_N), dtype=torch.float64, device=labels_N.device)
    counts = torch.zeros(classes * classes, dtype=torch.float64, device=labels_N.device)
    return counts.index_add_(0, labels_N * classes + predicted_N, ones_N).view(classes, classes)


def balanced_accuracy(matrix_KK: Tensor) -> float:
    """The mean over the classes that occur of the share that was recognised: the mean recall."""
    sizes_K = matrix_KK.sum(1)
    return float((matrix_KK.diagonal() / sizes_K)[sizes_K > 0].mean())


def macro_f1(matrix_KK: Tensor) -> float:
    """The mean of each class's F1, 2 TP / (2 TP + FP + FN).

    It is over the classes that occur among the labels or the predictions.
    """
    both_K = matrix_KK.sum(0) + matrix_KK.sum(1)  # 2 TP + FP + FN
    return float((2 * matrix_KK.diagonal() / both_K)[both_K > 0].mean())


@dataclass(frozen=True, slots=True, eq=False)
class CrossEntropy:
    """Sums over images, computed in `dtype`, since autocast's half precision has too few digits.

    smoothing and weights_K are of the labels and the classes, in training alone. test_time_flip: an
    evaluation averages the logits of an image and its mirror image. test_time_shift: so many px, by
    which it shifts the image up and left, and down and right; both together weigh as much as the
    image itself. measures: what an evaluation counts beside.
    """

    dtype: torch.dtype
    smoothing: float = 0.0
    test_time_flip: bool = False
    weights_K: Tensor | None = None
    measures: Measures = NONE
    test_time_shift: int = 0

    def training(self, logits_NK: Tensor, targets: Tensor) -> Tensor:
        """The sum of what is minimised, for labels_N or each class's share of an image, as NK."""
        return F.cross_entropy(
            logits_NK.to(self.dtype),
            targets,
            weight=self.weights_K,
            reduction="sum",
            label_smoothing=self.smoothing,
        )

    def views(self, x_NCHW: Tensor) -> list[Tensor]:
        """The variants of these images that an evaluation averages over."""
        places = [x_NCHW, *(shifted(x_NCHW, self.test_time_shift) if self.test_time_shift else ())]
        if not self.test_time_flip:
            return places
        return [view for place in places for view in (place, place.flip(3))]

    def evaluated(self, views: Sequence[Tensor], labels_N: Tensor) -> Tensor:
        """(sum of the loss, number right, counts of `measures`) by the logits_NK of each view.

        In float64, like `nothing`.
        """
        logits_NK = self._mean(torch.stack(list(views)))
        loss = F.cross_entropy(logits_NK.to(self.dtype), labels_N, reduction="sum")
        right = (logits_NK.argmax(1) == labels_N).sum()
        own = torch.stack([loss.double(), right.double()])
        return torch.cat([own, self.measures.counts(logits_NK, labels_N)])

    def _mean(self, views_VNK: Tensor) -> Tensor:
        if not self.test_time_shift:
            return views_VNK.mean(0)
        places_3NK: Tensor = views_VNK.unflatten(0, (3, -1)).mean(1)
        return (places_3NK[0] + places_3NK[1:].mean(0)) / 2

    def nothing(self, device: torch.device) -> Tensor:
        """What `evaluated` returns of no images."""
        return torch.zeros(2 + self.measures.size, dtype=torch.float64, device=device)

    def metrics(self, sums: Sequence[float], *, count: int) -> dict[str, float]:
        """The mean loss, the accuracy and the `measures`, by the sums over `count` images."""
        loss, right, *counts = sums
        own = {"loss": loss / count, "accuracy": right / count}
        return own | self.measures.metrics(counts)


def shifted(x_NCHW: Tensor, by: int) -> list[Tensor]:
    """The images `by` px up and left, and as far down and right, filled by their reflection."""
    size = x_NCHW.shape[-1]
    padded = F.pad(x_NCHW, (by,) * 4, mode="reflect")
    return [padded[:, :, start : start + size, start : start + size] for start in (2 * by, 0)]


def training_loss(
    settings: ClassifierSettings, images: ImageSet, device: torch.device
) -> CrossEntropy:
    """What `settings` minimise and measure on a device."""
    dtype = torch.float64 if settings.dtype == "float64" else torch.float32
    classes = images.info.num_classes
    weights_K = None
    if settings.class_weights is not None:
        labels_N = images.labels_N.cpu()[images.splits["train"]]
        weights_K = class_weights(settings.class_weights, labels_N, classes=classes)
        weights_K = weights_K.to(device, dtype)
    return CrossEntropy(
        dtype,
        settings.label_smoothing,
        settings.test_time_flip,
        weights_K,
        Measures(settings.metrics, classes),
        settings.test_time_shift,
    )


def class_weights(setting: str | Sequence[float], labels_N: Tensor, *, classes: int) -> Tensor:
    """weights_K of the classes in the loss, in float64.

    "balanced" weighs a class by the inverse of its share of `labels_N`, those of training: n / (K
    n_k) for n_k of n images. Others are scaled, as these are, such that their mean over the images
    is 1, so that `lr` keeps its meaning.
    """
    counts_K = torch.bincount(labels_N, minlength=classes).double()
    if isinstance(setting, str):
        weights_K = torch.where(counts_K > 0, 1 / counts_K, 0)
    else:
        weights_K = torch.tensor(setting, dtype=torch.float64)
    return weights_K * (counts_K.sum() / (weights_K * counts_K).sum())
