"""What the ranks of a data-parallel Learner do together; with one rank, nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuner.classifier.shared_norm import shared_over_ranks
from tuner.trial.torch_compat import data_parallel

SHARING_NORMS = (
    "cuda",
)  # where BatchNorm covers the images of all ranks: torch has it there alone


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank `rank` of `world_size` on `device`; the caller has initialised the process group."""

    rank: int
    world_size: int
    device: torch.device

    def __post_init__(self) -> None:
        if self.world_size > 1 and not dist.is_initialized():
            raise RuntimeError("world_size > 1 needs torch.distributed's process group")

    @property
    def several(self) -> bool:
        return self.world_size > 1

    def share(self, batch_size: int) -> dict[str, int]:
        """The arguments that make `shards` this rank's."""
        return {"batch_size": batch_size, "rank": self.rank, "world_size": self.world_size}

    def synchronised(self, model: nn.Module) -> nn.Module:
        """`model` with BatchNorm over the whole batch, where the device has it."""
        if self.several and self.device.type in SHARING_NORMS:
            return shared_over_ranks(model)
        return model

    def wrapped(self, model: nn.Module, module: nn.Module) -> nn.Module:
        """What a training step calls: `module`, which computes `model`, averaging gradients."""
        if not self.several or not any(p.requires_grad for p in model.parameters()):
            return module
        return data_parallel(module, self.device)

    def without_exchange(self, network: nn.Module) -> AbstractContextManager[None]:
        """Within it a backward pass of `network` adds to this rank's own gradients alone."""
        if isinstance(network, DistributedDataParallel):
            context: AbstractContextManager[None] = network.no_sync()
            return context
        return nullcontext()

    def used_by_any(self, parameters: Sequence[Tensor]) -> list[bool]:
        """Of each parameter, whether it has a gradient on any rank."""
        used = [float(parameter.grad is not None) for parameter in parameters]
        return [value > 0 for value in self.reduced(used, dist.ReduceOp.MAX)]

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Give every rank the mean of the ranks' gradients; without one, a rank's is 0.

        The parameters are the same on all ranks.
        """
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            by_type.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        for gradients in by_type.values():
            flat = torch.cat([gradient.flatten() for gradient in gradients]).div_(self.world_size)
            dist.all_reduce(flat)
            parts = flat.split([gradient.numel() for gradient in gradients])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def smallest(self, value: int) -> int:
        """The smallest `value` of any rank. Every rank waits for all of them."""
        return int(self.reduced([value], dist.ReduceOp.MIN)[0]) if self.several else value

    def share_buffers(self, model: nn.Module) -> None:
        """Give every rank rank 0's BatchNorm statistics, so that all evaluate one model."""
        if self.several:
            for buffer in model.buffers():
                dist.broadcast(buffer, src=0)

    def reduced(self, values: list[float], how: Any = dist.ReduceOp.SUM) -> list[float]:
        """`values` reduced over all ranks."""
        if not self.several:
            return values
        shared = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(shared, how)
        reduced: list[float] = shared.tolist()
        return reduced
