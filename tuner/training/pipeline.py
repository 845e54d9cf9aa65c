"""A model that does not fit one device, in stages over several ranks: GPipe (Huang et al. 2019).

Every rank builds the whole model on the host, from the same seed, and moves its own stage to its
device. Gradients are those of the whole batch: each micro-batch adds its part of one sum.
"""

# N batch, K classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

Loss = Callable[[Tensor, Tensor], Tensor]


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
    """

    def __init__(
        self, model: nn.Module, *, loss_sum: Loss, micro_batches: int, device: torch.device
    ) -> None:
        self._model, self._loss_sum, self._most, self._device = (
            model,
            loss_sum,
            micro_batches,
            device,
        )
        self._rank, self._stages = dist.get_rank(), dist.get_world_size()
        layers = layers_of(model)
        costs = [1 + sum(p.numel() for p in layer.parameters()) for layer in layers]
        self._owner: dict[int, int] = {}  # of each tensor's id: the rank that trains it
        for rank, positions in enumerate(cuts(costs, self._stages)):
            stage = nn.Sequential(*(layers[position] for position in positions))
            self._owner |= dict.fromkeys(map(id, _tensors(stage)), rank)
            if rank == self._rank:
                self._stage = stage.to(device)
        # Moving a module can make new tensors of it.
        self._owner |= dict.fromkeys(map(id, _tensors(self._stage)), self._rank)
        self._schedules: dict[int, ScheduleGPipe] = {}

    @property
    def last(self) -> bool:
        """Whether this rank computes the logits and the loss."""
        return self._rank == self._stages - 1

    def parameters(self) -> list[nn.Parameter]:
        """What this rank's optimizer updates."""
        return list(self._stage.parameters())

    def backward(self, x_NCHW: Tensor, labels_N: Tensor) -> float:
        """Add the gradients of the mean loss over the batch; returns it, on every rank.

        Every rank gives the batch; the first stage reads its images, the last its labels.
        """
        losses: list[Tensor] = []
        given = (x_NCHW.to(self._device),) if self._rank == 0 else ()
        wanted: dict[str, Any] = (
            {"target": labels_N.to(self._device), "losses": losses} if self.last else {}
        )
        self._schedule(len(labels_N)).step(*given, **wanted)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        for loss in losses:
            total += loss.detach()
        dist.broadcast(total, src=self._stages - 1)
        return float(total)

    def state_dict(self) -> dict[str, Tensor]:
        """The whole model's state, on the host and on every rank, by its own names."""
        state = {}
        for name, value in self._model.state_dict(keep_vars=True).items():
            shared = value.detach().to(self._device, copy=True)
            dist.broadcast(shared, src=self._owner[id(value)])
            state[name] = shared.cpu()
        return state

    def _schedule(self, count: int) -> ScheduleGPipe:
        # A schedule fixes the shapes it sends, so every size of batch needs its own.
        if count not in self._schedules:

            def loss(logits_NK: Tensor, labels_N: Tensor) -> Tensor:
                return self._loss_sum(logits_NK, labels_N) / count

            stage = PipelineStage(self._stage, self._rank, self._stages, self._device)
            self._schedules[count] = ScheduleGPipe(
                stage, micro_batches(count, self._most), loss_fn=loss, scale_grads=False
            )
        return self._schedules[count]


def _tensors(module: nn.Module) -> list[Any]:
    return [*module.parameters(), *module.buffers()]
