"""The metrics of an evaluation that are reported where they are named: what `sklearn` calls so.

They follow from counts that add up over batches and ranks: a confusion matrix and the images whose
class is among the five likeliest.
"""

# N batch, K classes

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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
