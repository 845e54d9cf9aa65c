"""BatchNorm over the images of all ranks."""

# N images

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SharedBatchNorm(nn.SyncBatchNorm):
    """torch's SyncBatchNorm, in which a rank may take part without any images.

    counted: whether the statistics include this rank's images. If not, the rank still takes part in
    the exchange, and its images, which have no weight in the loss, are normalised by themselves.
    """

    counted = True

    def forward(self, x: Tensor) -> Tensor:
        if self.counted or not self.training:
            return super().forward(x)
        # In the dtype in which ranks with images exchange the statistics
        exact = torch.promote_types(x.dtype, torch.float32)
        none = super().forward(x[:0].to(exact))
        own = F.group_norm(x.to(exact), 1, self.weight, self.bias, self.eps)
        return torch.cat([none, own]).to(x.dtype)


def share_norms(model: nn.Module) -> nn.Module:
    """`model` with its BatchNorm layers over all ranks; they keep their names and parameters.

    A layer that computes more than BatchNorm keeps its statistics to itself: torch's conversion
    would leave out what it adds, as the activation in timm's `BatchNormAct2d`.
    """
    named = list(model.named_modules(remove_duplicate=False))
    shared: dict[nn.Module, nn.Module] = {}
    for _, module in named:
        if _is_plain_norm(module) and module not in shared:
            shared[module] = nn.SyncBatchNorm.convert_sync_batchnorm(module)
            # torch's conversion cannot make a subclass
            shared[module].__class__ = SharedBatchNorm
    for name, module in named:
        if name and module in shared:
            model.set_submodule(name, shared[module])
    return shared.get(model, model)


def list_unshared_norms(model: nn.Module) -> list[str]:
    """The names of BatchNorm layers that `share_norms` leaves as they are."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm)
    ]


def _is_plain_norm(module: nn.Module) -> bool:
    """Whether it computes what torch's BatchNorm computes, and no more."""
    if isinstance(module, nn.SyncBatchNorm):
        return type(module) is nn.SyncBatchNorm
    return isinstance(module, _BatchNorm) and type(module).forward is _BatchNorm.forward


def list_shared_norms(model: nn.Module) -> list[SharedBatchNorm]:
    """The layers of `model` in which the ranks wait for one another."""
    return [module for module in model.modules() if isinstance(module, SharedBatchNorm)]


@contextmanager
def freeze_statistics(norms: Sequence[SharedBatchNorm]) -> Iterator[None]:
    """Within it the layers use and keep their statistics, and wait for no rank."""
    active = [norm for norm in norms if norm.training]
    for norm in active:
        norm.eval()
    try:
        yield
    finally:
        for norm in active:
            norm.train()


@contextmanager
def exclude_images(norms: Sequence[SharedBatchNorm]) -> Iterator[None]:
    """Within it the statistics leave out this rank's images."""
    for norm in norms:
        norm.counted = False
    try:
        yield
    finally:
        for norm in norms:
            del norm.counted  # the class's own is True
