"""Communication among the ranks of a data-parallel Learner; none with one rank."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuner.trial.torch_compat import wrap_data_parallel
from tuner.vision.shared_norms import list_unshared_norms, share_norms
from tuner.wording import summarize_names

# Devices on which torch has BatchNorm over the images of all ranks
SHARING_NORMS = ("cuda",)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank `rank` of `world_size` on `device`; the caller has initialised the process group."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def several(self) -> bool:
        return self.world_size > 1

    def sync_norms(self, model: nn.Module) -> nn.Module:
        """`model` with BatchNorm over the complete batch, if the device has it."""
        if not self.several or self.device.type not in SHARING_NORMS:
            return model
        model = share_norms(model)
        local = list_unshared_norms(model)
        if local and self.rank == 0:
            print(
                f"warning: {summarize_names(local)} normalise by the images of each rank alone"
            )
        return model

    def wrap_module(
        self, model: nn.Module, module: nn.Module, *, may_skip: bool
    ) -> nn.Module:
        """`module`, which computes `model`, with averaged gradients; `may_skip` some parameters."""
        if not self.several or not any(p.requires_grad for p in model.parameters()):
            return module
        self.broadcast([*model.parameters(), *model.buffers()])
        return wrap_data_parallel(module, self.device, may_skip=may_skip)

    def skip_sync(self, network: nn.Module) -> AbstractContextManager[None]:
        """Within it a backward pass of `network` adds to this rank's gradients only."""
        return (
            network.no_sync()
            if isinstance(network, DistributedDataParallel)
            else nullcontext()
        )

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Give every rank the mean of the ranks' gradients; a missing gradient counts as 0.

        A parameter that no rank has used has no gradient afterwards, as in one process.
        """
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for parameter in parameters:
            by_type.setdefault(parameter.dtype, []).append(parameter)
        for dtype, group in by_type.items():
            used = torch.tensor([p.grad is not None for p in group], device=self.device)
            gradients = [
                torch.zeros_like(p) if p.grad is None else p.grad for p in group
            ]
            flat = torch.cat([*(each.flatten() for each in gradients), used.to(dtype)])
            dist.all_reduce(flat.div_(self.world_size))
            *means, used = flat.split(
                [*(each.numel() for each in gradients), len(group)]
            )
            for parameter, gradient, mean, share in zip(
                group, gradients, means, used.tolist(), strict=True
            ):
                parameter.grad = (
                    gradient.copy_(mean.view_as(gradient)) if share else None
                )

    def find_smallest(self, value: int) -> int:
        """The smallest `value` of any rank. Every rank waits for all of them."""
        return int(self.reduce([value], dist.ReduceOp.MIN)[0])

    @torch.no_grad()
    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the values of rank 0's dense tensors.

        They are sent as bytes of contiguous copies: gloo lacks some types, and reads other tensors
        beyond their end.
        """
        for tensor in tensors if self.several else ():
            if tensor.layout is torch.strided and tensor.numel():
                view = select_distinct(tensor)
                copy = view.clone(memory_format=torch.contiguous_format)
                dist.broadcast(copy.flatten().view(torch.uint8), src=0)
                view.copy_(copy)

    def reduce(self, values: list[float], how: Any = dist.ReduceOp.SUM) -> list[float]:
        if not self.several:
            return values
        shared = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(shared, how)
        return list(shared.tolist())


def select_distinct(tensor: Tensor) -> Tensor:
    """A view of an expanded tensor with each element once."""
    for dim in range(tensor.ndim):
        if tensor.stride(dim) == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor
