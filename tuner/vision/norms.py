"""Norm layers and the statistics of BatchNorm."""

# N images

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor, nn

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
NORMS = (*BATCH_NORMS, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def renew_statistics(
    model: nn.Module, layers: Collection[str], batches: Iterable[Tensor]
) -> None:
    """Give the BatchNorm `layers` of `model` the mean statistics of these batches of images.

    Averaged weights have other activations than any of the models that they average: Izmailov et
    al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization", section 3.2.
    """
    norms: list[Any] = [model.get_submodule(name) for name in layers]
    model.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
        norm.train()
    with torch.no_grad():
        for x_NCHW in batches:
            model(x_NCHW)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
