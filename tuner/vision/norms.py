"""What the settings say of norm layers: which they are, their statistics and their scales."""

from __future__ import annotations

from torch import nn

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
NORMS = (*BATCH_NORMS, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def set_norm_momentum(model: nn.Module, momentum: float | None) -> None:
    """Let a batch have this share in the statistics of BatchNorm; None: as the layers have it."""
    for module in model.modules():
        if momentum is not None and isinstance(module, BATCH_NORMS):
            module.momentum = momentum


def norm_scales(model: nn.Module, *, train: bool) -> frozenset[str]:
    """The names of the scales of norm layers that do not train: none if they `train`."""
    return frozenset(
        f"{name}.weight"
        for name, module in model.named_modules()
        if not train and isinstance(module, NORMS) and module.weight is not None
    )
