"""Linear heads by least squares on the features of a frozen network, and how they learn.

Least squares to labels as 0 and 1, with an L2 penalty, has a closed form (Rifkin et al. 2003,
"Regularized Least-Squares Classification"), so that all heads of 2,000 images take seconds. Each
image is judged by heads that have seen neither it nor its copies. A learning curve is a list of
plain values, as a test split's record has it, with the fewest images first:

    learning_curve   [{images, errors}, ..., {images, errors, gain}]

images: that a head is fitted to. errors: the share of other images that it gets wrong. gain: how
much less the last entry's is than that of the one before, as an interval of 95 %.
"""

# N images, F features, K classes, S strengths, M images that a head is fitted to

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tuner.experiment.results.statistics import compute_mean
from tuner.vision.batches import ImageSet, sample_evenly
from tuner.vision.datasets._dataset import assign_group_folds
from tuner.vision.features import Features

FOLDS = 5
# Images: their Gram matrix, and the time, grows with the square or the cube
MOST_AT_ONCE = 2000
_PARTS = (4, 2, 1)  # a quarter, a half and all of the images of the other folds
# Of the penalty, beside the mean square of a feature
_STRENGTHS = torch.logspace(-4, 0, 9)[:, None, None]
# Of the mean standard deviation: a feature that hardly varies is noise
_LEAST_STD = 0.3


def compute_learning_curve(
    features: Features, images: ImageSet
) -> list[dict[str, Any]]:
    """Of heads on a quarter, a half and all of four fifths of up to 2,000 images of the search.

    Each quarter and each half has a head, so that no entry depends on which images are drawn. Empty
    for fewer than 25 images.
    """
    rows_N = sample_evenly(images.searched_N.cpu(), MOST_AT_ONCE)
    if len(rows_N) < FOLDS**2:
        return []
    heads = HeldOutHeads(features, images, rows_N)
    wrong_N3 = torch.stack([heads.compute_errors(parts) for parts in _PARTS], 1)
    fitted = len(rows_N) * (FOLDS - 1) / FOLDS
    errors_3 = wrong_N3.mean(0).tolist()
    curve: list[dict[str, Any]] = [
        {"images": round(fitted / parts), "errors": errors}
        for parts, errors in zip(_PARTS, errors_3, strict=True)
    ]
    gain_N = wrong_N3[:, 1] - wrong_N3[:, 2]
    gain = compute_mean(gain_N.tolist())
    curve[-1]["gain"] = [gain.low, gain.high]
    return curve


class HeldOutHeads:
    """Heads for the images `rows_N`, each fitted to other folds than it judges."""

    def __init__(self, features: Features, images: ImageSet, rows_N: Tensor) -> None:
        self._labels_N = images.labels_N.cpu()[rows_N]
        self._targets_NK = F.one_hot(self._labels_N, images.info.num_classes).float()
        groups_N = rows_N
        if images.groups_N is not None:
            groups_N = images.groups_N[rows_N]
        fold_N = assign_group_folds(
            self._labels_N.numpy(), groups_N.numpy(), FOLDS, seed=0
        )
        self._fold_N = torch.from_numpy(fold_N)
        x_NF = features.select(rows_N).mean(1)
        std_F = x_NF.std(0)
        scale_F = std_F + _LEAST_STD * std_F.mean() + 1e-9
        x_NF = (x_NF - x_NF.mean(0)) / scale_F
        self._gram_NN = x_NF @ x_NF.T / x_NF.shape[1]

    def compute_errors(self, parts: int) -> Tensor:
        """The share of the heads of each image that get it wrong."""
        predicted_PN = self.compute_scores(parts).argmax(2)
        return (predicted_PN != self._labels_N).float().mean(0)

    def compute_scores(self, parts: int = 1) -> Tensor:
        """scores_PNK, about probabilities, by heads on each of `parts` parts of the other folds.

        The strength of the penalty is that with the least squared error.
        """
        scores_PSNK = torch.zeros(parts, len(_STRENGTHS), *self._targets_NK.shape)
        order_N = self._labels_N.argsort(stable=True)  # every class is in each part
        for fold in range(FOLDS):
            is_here_N = self._fold_N == fold
            others_N = order_N[~is_here_N[order_N]]
            for part in range(parts):
                rows_M = others_N[part::parts]
                scores_PSNK[part][:, is_here_N] = self._compute_fold_scores(
                    rows_M, is_here_N
                )
        errors_S = (scores_PSNK - self._targets_NK).square().mean((0, 2, 3))
        return scores_PSNK[:, errors_S.argmin()]

    def _compute_fold_scores(self, rows_M: Tensor, is_here_N: Tensor) -> Tensor:
        """scores_SNK of the images `is_here_N` by heads that are fitted to the images `rows_M`."""
        targets_MK = self._targets_NK[rows_M]
        mean_K = targets_MK.mean(0)
        values_M, vectors_MM = torch.linalg.eigh(self._gram_NN[rows_M][:, rows_M])
        across_NM = self._gram_NN[is_here_N][:, rows_M] @ vectors_MM
        along_MK = vectors_MM.T @ (targets_MK - mean_K)
        penalised_S1M = values_M + len(rows_M) * _STRENGTHS
        scores_SNK: Tensor = (across_NM / penalised_S1M) @ along_MK + mean_K
        return scores_SNK
