"""Heads that train on the features of a frozen network, by steps or by regression."""

# N images, C channels, H W pixels, K classes, F features, V views: all of U upright, upside
# down and M as it is, mirrored; after them random crops

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuner.trial.torch_compat import bypass_compiler, use_single_thread
from tuner.vision.batches import Batcher, ImageSet, sample_evenly
from tuner.vision.epochs import Epoch
from tuner.vision.features import Features
from tuner.vision.recipe import Augmentation
from tuner.vision.settings import ClassifierSettings

MOST_FITTED = 20_000  # images that a head is fitted to
# Of the weights' squared sum beside the mean loss, for features of variance 1; strongest first
_STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
_STEPS = 100  # of L-BFGS in an epoch, or for each strength
# Up to which a basis of the rows saves time: it takes their square, each step their product with K
_MOST_ROWS_A_CLASS = 100
# Of the mean standard deviation of a feature, by which one that hardly varies is scaled. By its own
# it would get so large a weight that the first steps of fine-tuning throw the logits far away
_LEAST_STD = 0.3
# The sum of the loss, of logits_NK and labels_N
Loss = Callable[[Tensor, Tensor], Tensor]


class Head(nn.Module):
    """The head of a network alone: from x_NFUM of a `FeatureBatcher` to logits_NK, of view 1."""

    def __init__(self, name: str, features: int, num_classes: int) -> None:
        super().__init__()
        *parents, last = name.split(".")
        module: nn.Module = self
        for parent in parents:
            module.add_module(parent, nn.Module())
            module = module.get_submodule(parent)
        module.add_module(last, nn.Linear(features, num_classes))
        self._name = name

    def forward(self, x_NFUM: Tensor) -> Tensor:
        logits_NK: Tensor = self.get_submodule(self._name)(x_NFUM[:, :, 0, 0])
        return logits_NK


class FeatureBatcher(Batcher):
    """Batches of features in place of images: x_NFUM, so that flips of images are flips of it."""

    def __init__(
        self,
        features: Features,
        images: ImageSet,
        *,
        augmentation: Augmentation,
        **how: Any,
    ) -> None:
        self._shape = features.views_NUMF.shape[1:]
        flips = Augmentation(
            flip=augmentation.flip, vertical_flip=augmentation.vertical_flip
        )
        views_NP = features.views_NUMF.flatten(1)
        rows = replace(
            images, rows_NP=views_NP, labels_N=images.labels_N.to(views_NP.device)
        )
        super().__init__(rows, augmentation=flips, **how)

    def set_pixel_stats(self, stats: object) -> None:
        """Features are of images that are normalised already."""

    def build_batch(self, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        """(x_NFUM, labels_N) of the images `rows_N`."""
        rows_NP, labels_N = self._select(rows_N)
        x_NUMF = rows_NP.view(-1, *self._shape).to(self._dtype)
        return x_NUMF.permute(0, 3, 1, 2), labels_N

    def _augment_batch(self, epoch: Epoch, positions: slice) -> tuple[Tensor, Tensor]:
        x_NFUM, labels_N = self.build_batch(epoch.order_N[positions])
        draws = epoch.draws.select(positions)
        if self._augmentation.flip:
            flip_N = draws.flip_N[:, None, None, None]
            x_NFUM = torch.where(flip_N, x_NFUM.flip(3), x_NFUM)
        if self._augmentation.vertical_flip:
            upside_down_N = draws.upside_down_N[:, None, None, None]
            x_NFUM = torch.where(upside_down_N, x_NFUM.flip(2), x_NFUM)
        return x_NFUM, labels_N


def fit_head(
    features: Features,
    images: ImageSet,
    train_N: Tensor,
    held_out_N: Tensor,
    *,
    fits_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(weight_KF, bias_K), in float32, of the linear head with the least loss of `held_out_N`.

    Multinomial logistic regression on the images `train_N`, all views, by L-BFGS; its L2 penalty is
    the best of a path from strong to weak. fits_N: the images that are fitted with the penalty that
    `held_out_N` have chosen, default `train_N`.
    """
    labels_N = images.labels_N.cpu()

    def sample_rows(rows_N: Tensor) -> tuple[Tensor, Tensor]:
        rows_N = sample_evenly(rows_N, MOST_FITTED)
        views_NVF = features.select(rows_N)
        return views_NVF.flatten(0, 1), labels_N[rows_N].repeat_interleave(
            views_NVF.shape[1]
        )

    x_NF, y_N = sample_rows(train_N)
    # A linear head's logits for the mean of the views are the mean of their logits
    x_val_NF = features.select(held_out_N).mean(1)
    y_val_N = labels_N[held_out_N]
    mean_F, std_F = _compute_scale(x_NF)
    x_NF = (x_NF - mean_F) / std_F
    x_val_NF = (x_val_NF - mean_F) / std_F
    head = nn.Linear(x_NF.shape[1], images.info.num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    least = float("inf")
    best = head.state_dict()
    chosen = _STRENGTHS[0]
    rows = _project_rows(x_NF, head.out_features)
    for strength in _STRENGTHS:
        _fit_regression(head, rows, y_N, strength=strength)
        with torch.no_grad():
            loss = float(F.cross_entropy(head(x_val_NF), y_val_N))
        if not loss < least:
            break
        least = loss
        chosen = strength
        best = {name: w.clone() for name, w in head.state_dict().items()}
    if fits_N is not None:
        head.load_state_dict(best)
        x_NF, y_N = sample_rows(fits_N)
        rows = _project_rows((x_NF - mean_F) / std_F, head.out_features)
        _fit_regression(head, rows, y_N, strength=chosen)
        best = head.state_dict()
    weight_KF = best["weight"].detach() / std_F
    return weight_KF, best["bias"].detach() - weight_KF @ mean_F


def regress_head(
    head: nn.Linear,
    features: Features,
    images: ImageSet,
    settings: ClassifierSettings,
    loss: Loss,
) -> float:
    """Go on with the regression of `head` to the training images; the mean of `loss` in the end.

    As `fit_head`, of all crops too, with the L2 penalty `weight_decay`. Without `flip` no mirror
    image is fitted, and without `vertical_flip` none upside down.
    """
    rows_N = sample_evenly(images.splits["train"], MOST_FITTED)
    views_NVF = features.select(
        rows_N, mirrored=settings.flip, upside_down=settings.vertical_flip, crops=True
    ).to(head.weight)
    x_NF = views_NVF.flatten(0, 1)
    labels_N = (
        images.labels_N.cpu()[rows_N]
        .repeat_interleave(views_NVF.shape[1])
        .to(x_NF.device)
    )
    mean_F, std_F = _compute_scale(x_NF)
    with torch.no_grad():
        head.bias.add_(head.weight @ mean_F)
        head.weight.mul_(std_F)
        x_NF.sub_(mean_F).div_(std_F)  # a copy, and the largest tensor of the trial
    rows = _project_rows(x_NF, head.out_features)
    _fit_regression(head, rows, labels_N, strength=settings.weight_decay, loss=loss)
    with torch.no_grad():
        mean_loss = float(loss(head(x_NF), labels_N)) / len(x_NF)
        head.weight.div_(std_F)
        head.bias.sub_(head.weight @ mean_F)
    return mean_loss


def _compute_scale(x_NF: Tensor) -> tuple[Tensor, Tensor]:
    """(mean_F, std_F) that scale these features."""
    std_F = x_NF.std(0)
    least_std = _LEAST_STD * std_F.mean()
    return x_NF.mean(0), std_F.clamp_min(least_std if least_std > 0 else 1.0)


class _Rows(NamedTuple):
    """Features to fit, x_NF, or of fewer rows than features their coordinates in `basis_FN`.

    The rows span a space that holds the best weights of an L2 penalty: by the representer theorem
    (Kimeldorf & Wahba 1971) the fit within it is that of all features.
    """

    x_NF: Tensor
    basis_FN: Tensor | None = None


def _project_rows(x_NF: Tensor, num_classes: int) -> _Rows:
    """The rows in the space that they span, where the fit is faster for it."""
    if len(x_NF) >= min(x_NF.shape[1], _MOST_ROWS_A_CLASS * num_classes):
        return _Rows(x_NF)
    with use_single_thread():
        basis_FN, coordinates_NN = torch.linalg.qr(x_NF.T)
    return _Rows(coordinates_NN.T, basis_FN)


def _fit_regression(
    head: nn.Linear,
    rows: _Rows,
    labels_N: Tensor,
    *,
    strength: float,
    loss: Loss | None = None,
) -> None:
    """Fit `head` to the rows by L-BFGS, with the L2 penalty `strength`."""
    x_NF, basis_FN = rows
    if basis_FN is not None:
        small = nn.Linear(x_NF.shape[1], head.out_features).to(x_NF)
        with torch.no_grad():
            small.weight.copy_(head.weight @ basis_FN)
            small.bias.copy_(head.bias)
        _fit_regression(small, _Rows(x_NF), labels_N, strength=strength, loss=loss)
        with torch.no_grad():
            head.weight.copy_(small.weight @ basis_FN.T)
            head.bias.copy_(small.bias)
        return
    loss_sum = loss or partial(F.cross_entropy, reduction="sum")

    def compute_loss() -> Tensor:
        optimizer.zero_grad()
        penalty = strength / 2 * head.weight.square().sum()
        total: Tensor = loss_sum(head(x_NF), labels_N) / len(x_NF) + penalty
        total.backward()
        return total

    with bypass_compiler(), use_single_thread():
        optimizer = torch.optim.LBFGS(
            head.parameters(), max_iter=_STEPS, line_search_fn="strong_wolfe"
        )
        optimizer.step(compute_loss)
