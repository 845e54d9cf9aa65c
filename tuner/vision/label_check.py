"""Images that a model gets most wrong, and labels that are probably wrong.

Both are lists of plain values, as a test split's record has them:

    mistakes         [{file, label, predicted, probability}]    the surest mistakes first
    doubtful_labels  [{file, label, suggested, probability}]    the most doubtful first
"""

# N images, V views, F features, K classes

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import torch
from torch import Tensor

from tuner.vision.batches import ImageSet
from tuner.vision.features import MOST_FITTED, Features, fitted

_MOST_MISTAKES = 24
_MOST_DOUBTFUL = 100
MOST_MEASURED = 10_000  # images that are searched for mistakes
_FOLDS = 5
# Between the probabilities of the suggested and of the given class. A network that is often wrong
# would make the list long and mostly wrong without it
_LEAST_MARGIN = 0.5


def mistakes(
    logits_NK: Tensor, images: ImageSet, rows_N: Tensor, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The images that a model gets most wrong, by the probability of the wrong class; at most 24.

    logits_NK: of the first of the images `rows_N`. names: of all images of the set, by row.
    """
    rows_N = rows_N[: len(logits_NK)].cpu()
    probability_N, predicted_N = logits_NK.softmax(1).cpu().max(1)
    wrong_N = (predicted_N != images.labels_N.cpu()[rows_N]).nonzero().flatten()
    worst_N = wrong_N[probability_N[wrong_N].argsort(descending=True)][:_MOST_MISTAKES]
    chosen = predicted_N[worst_N], probability_N[worst_N]
    return _listed(images, names, rows_N[worst_N], "predicted", *chosen)


def _listed(
    images: ImageSet,
    names: Sequence[str],
    rows_N: Tensor,
    key: str,
    classes_N: Tensor,
    probability_N: Tensor,
) -> list[dict[str, Any]]:
    """An entry for each of the images `rows_N`; key: what its class in `classes_N` is called."""
    classes = images.info.classes
    values = (rows_N.tolist(), images.labels_N.cpu()[rows_N].tolist(), classes_N.tolist())
    return [
        {"file": names[row], "label": classes[label], key: classes[other], "probability": p}
        for row, label, other, p in zip(*values, probability_N.tolist(), strict=True)
    ]


def doubtful_labels(
    features: Features, images: ImageSet, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The images whose labels are probably wrong, at most 100 of up to 20,000 images.

    Confident learning (Northcutt et al. 2021, "Confident Learning", section 3.1): a class is
    suggested if its probability reaches the mean probability of the class among its own images.
    The probabilities are of heads that have not seen the image, one for each of five folds. A
    suggestion also has to be likelier than the label by 0.5.
    """
    labels_N = images.labels_N.cpu()
    rows_N = torch.arange(len(labels_N))[:: ceil(len(labels_N) / MOST_FITTED)]
    labels_N = labels_N[rows_N]
    probabilities_NK = _out_of_fold(features, images, rows_N)
    given_N = probabilities_NK.gather(1, labels_N[:, None]).flatten()
    sizes_K = torch.bincount(labels_N, minlength=images.info.num_classes)
    thresholds_K = torch.zeros(len(sizes_K)).index_add_(0, labels_N, given_N) / sizes_K
    reached_NK = probabilities_NK >= thresholds_K  # never for a class without images: 0 / 0
    suggested_N = probabilities_NK.where(reached_NK, -1.0).argmax(1)
    probability_N = probabilities_NK.gather(1, suggested_N[:, None]).flatten()
    margin_N = probability_N - given_N
    is_judged_N = sizes_K[labels_N] >= _FOLDS  # other heads have seen the class
    is_doubtful_N = is_judged_N & (suggested_N != labels_N) & (margin_N >= _LEAST_MARGIN)
    doubtful_N = is_doubtful_N.nonzero().flatten()
    worst_N = doubtful_N[margin_N[doubtful_N].argsort(descending=True)][:_MOST_DOUBTFUL]
    chosen = suggested_N[worst_N], probability_N[worst_N]
    return _listed(images, names, rows_N[worst_N], "suggested", *chosen)


def _out_of_fold(features: Features, images: ImageSet, rows_N: Tensor) -> Tensor:
    """probabilities_NK of the images `rows_N`, each by a head that was fitted to other folds."""
    labels_N = images.labels_N.cpu()[rows_N]
    generator = torch.Generator().manual_seed(0)
    shuffled_N = torch.randperm(len(rows_N), generator=generator)
    # Stratified: the images of each class go to the folds in turn
    dealt_N = shuffled_N[labels_N[shuffled_N].argsort(stable=True)]
    fold_N = torch.empty(len(rows_N), dtype=torch.int64)
    fold_N[dealt_N] = torch.arange(len(rows_N)) % _FOLDS
    probabilities_NK = torch.empty(len(rows_N), images.info.num_classes)
    for fold in range(_FOLDS):
        is_here_N = fold_N == fold
        weight_KF, bias_K = fitted(features, images, rows_N[~is_here_N], rows_N[is_here_N])
        here_N = rows_N[is_here_N].to(features.views_NVF.device)
        x_NF = features.views_NVF.index_select(0, here_N).mean(1).cpu()
        probabilities_NK[is_here_N] = (x_NF @ weight_KF.T + bias_K).softmax(1)
    return probabilities_NK
