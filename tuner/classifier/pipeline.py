"""A model that does not fit one device, in stages over several ranks: GPipe (Huang et al. 2019).

Every rank builds the whole model on the host, from the same seed, and moves its own stage to its
device. Gradients are those of the whole batch: each micro-batch adds its part of one sum.
"""

# N batch, K classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

Loss = Callable[[Tensor, Tensor], Tensor]
Context = Callable[[], AbstractContextManager[None]]


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The layers whose composition is `model`: a Sequential's, or what its `layers()` gives.

    Raises ValueError for a model that has neither.
    """
    if isinstance(model, nn.Sequential):
        return list(model)
    layers = getattr(model, "layers", None)
    if not callable(layers):
        raise ValueError(
            f"cannot split {type(model).__name__}: it is no nn.Sequential and has no layers()"
        )
    return list(layers())


def cuts(costs: Sequence[float], stages: int) -> list[range]:
    """Positions in `costs` as `stages` consecutive ranges, none empty, the dearest least dear.

    Raises ValueError where there are fewer layers than stages.

    >>> cuts([1, 1, 1, 5], 2)
    [range(0, 3), range(3, 4)]
    """
    count = len(costs)
    if not 1 <= stages <= count:
        raise ValueError(f"`stages` must be from 1 to the number of layers, {count}, got {stages}")
    # best[k][end]: (cost of the dearest of k + 1 stages over the first `end`, where the last began)
    best = [{end: (sum(costs[:end]), 0) for end in range(1, count + 1)}]
    for stage in range(1, stages):
        before = best[-1]
        best.append(
            {
                end: min(
                    (max(before[start][0], sum(costs[start:end])), start)
                    for start in range(stage, end)
                )
                for end in range(stage + 1, count + 1)
            }
        )
    ranges, end = [], count
    for table in reversed(best):
        start = table[end][1]
        ranges.append(range(start, end))
        end = start
    return ranges[::-1]


def micro_batches(count: int, most: int) -> int:
    """The largest number of equal parts of `count` images, at most `most`.

    >>> micro_batches(12, 4), micro_batches(9, 4), micro_batches(7, 4)
    (4, 3, 1)
    """
    return next(parts for parts in range(min(count, most), 0, -1) if count % parts == 0)


class Pipeline:
    """This rank's stage of `model`, rank r being stage r of the process group.

    loss_sum: the sum of the loss over a batch, of (logits_NK, labels_N). micro_batches: parts of
    a batch that are under way at once; a batch that has no such number of equal parts has fewer.
    forward: the context in which layers compute; stages exchange activations in the model's type.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        loss_sum: Loss,
        micro_batches: int,
        device: torch.device,
        forward: Context = nullcontext,
    ) -> None:
        self._loss_sum, self._most, self._device = loss_sum, micro_batches, device
        self._rank, self._stages = dist.get_rank(), dist.get_world_size()
        layers = layers_of(model)
        costs = [1 + sum(p.numel() for p in layer.parameters()) for layer in layers]
        self._owner: dict[int, int] = {}  # of each tensor's id: the rank that trains it
        for rank, positions in enumerate(cuts(costs, self._stages)):
            part = nn.Sequential(*(layers[position] for position in positions))
            self._owner |= dict.fromkeys(map(id, _tensors(part)), rank)
            if rank == self._rank:
                self._stage = _Stage(part.to(device), forward)
        # Moving a module can make new tensors of it.
        self._owner |= dict.fromkeys(map(id, _tensors(self._stage)), self._rank)
        self._schedules: dict[tuple[int, bool], ScheduleGPipe] = {}

    @property
    def last(self) -> bool:
        """Whether this rank computes the logits and the loss."""
        return self._rank == self._stages - 1

    def owns(self, tensor: Tensor) -> bool:
        """Whether this rank trains a parameter, or keeps a buffer, of the model."""
        return self._owner[id(tensor)] == self._rank

    def backward(self, x_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """Add the gradients of the mean loss over the batch; the sum of the loss, 0 but on `last`.

        Every rank gives the batch; the first stage reads its images, the last its labels.
        """
        means: list[Tensor] = []
        wanted: dict[str, Any] = {"target": labels_N, "losses": means} if self.last else {}
        schedule = self._schedule(len(labels_N), training=True)
        schedule.step(*self._given(x_NCHW), return_outputs=False, **wanted)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        for mean in means:
            total += mean.detach()
        return total * len(labels_N)

    def logits(self, x_NCHW: Tensor) -> Tensor | None:
        """logits_NK of a batch that every rank gives, on `last`; None on the others."""
        schedule = self._schedule(len(x_NCHW), training=False)
        logits_NK: Tensor | None = schedule.step(*self._given(x_NCHW))
        return logits_NK

    def _given(self, x_NCHW: Tensor) -> tuple[Tensor, ...]:
        return (x_NCHW,) if self._rank == 0 else ()

    def _schedule(self, count: int, *, training: bool) -> ScheduleGPipe:
        # A schedule fixes the shapes it sends, so every size of batch needs its own.
        key = count, training
        if key not in self._schedules:

            def mean(logits_NK: Tensor, labels_N: Tensor) -> Tensor:
                return self._loss_sum(logits_NK, labels_N) / count

            stage = PipelineStage(self._stage, self._rank, self._stages, self._device)
            self._schedules[key] = ScheduleGPipe(
                stage,
                micro_batches(count, self._most),
                loss_fn=mean if training else None,
                scale_grads=False,
            )
        return self._schedules[key]


class _Stage(nn.Module):
    """The layers of one stage: what they send on, and back, lies in memory as its shape says."""

    def __init__(self, part: nn.Module, forward: Context) -> None:
        super().__init__()
        self._part, self._context = part, forward

    def forward(self, x: Tensor) -> Tensor:
        with self._context():
            out: Tensor = self._part(_ContiguousBack.apply(x))  # type: ignore[no-untyped-call]
        return out.to(x.dtype).contiguous()


class _ContiguousBack(torch.autograd.Function):
    """A copy, which a first layer may change in place; its gradient is contiguous."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.contiguous()


def _tensors(module: nn.Module) -> list[Any]:
    return [*module.parameters(), *module.buffers()]
