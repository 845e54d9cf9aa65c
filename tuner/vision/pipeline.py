"""A model that does not fit one device, in stages over several ranks: GPipe (Huang et al. 2019).

Every rank builds the whole model on the host, from the same seed, and moves its own stage to its
device. Gradients are those of the whole batch: each micro-batch adds its part of one sum.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.optim import Optimizer

from tuner.trial.state import host_copy
from tuner.vision.epochs import Epoch, Shard
from tuner.vision.replica import Setup, gradients_of

PARTS_PER_STAGE = 4  # micro-batches under way: with more, stages idle less, but parts are smaller

Loss = Callable[[Tensor, Tensor], Tensor]
Context = Callable[[], AbstractContextManager[None]]


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The layers whose composition is `model`, an nn.Sequential; those within it are taken apart.

    Raises ValueError for any other model.
    """
    if not isinstance(model, nn.Sequential):
        raise ValueError(f"cannot split {type(model).__name__}: it is no nn.Sequential")
    nested = (layers_of(part) if isinstance(part, nn.Sequential) else [part] for part in model)
    return [layer for layers in nested for layer in layers]


def cuts(costs: Sequence[float], stages: int) -> list[range]:
    """Positions in `costs` as `stages` consecutive ranges, none empty, the dearest one cheapest.

    Raises ValueError where there are fewer layers than stages.

    >>> cuts([1, 1, 1, 5], 2)
    [range(0, 3), range(3, 4)]
    """
    if not 1 <= stages <= len(costs):
        most = f"the number of layers, {len(costs)}"
        raise ValueError(f"`stages` must be from 1 to {most}, got {stages}")

    @cache
    def best(end: int, stages: int) -> tuple[float, list[range]]:
        """The cost of the dearest of so many stages over the first `end` layers, and the stages."""
        if stages == 1:
            return sum(costs[:end]), [range(end)]
        cost, start = min(
            (max(best(start, stages - 1)[0], sum(costs[start:end])), start)
            for start in range(stages - 1, end)
        )
        return cost, [*best(start, stages - 1)[1], range(start, end)]

    return best(len(costs), stages)[1]


def micro_batches(count: int, most: int) -> int:
    """The largest number of equal parts of `count` images, at most `most`.

    >>> micro_batches(12, 4), micro_batches(9, 4), micro_batches(7, 4)
    (4, 3, 1)
    """
    return next(parts for parts in range(min(count, most), 0, -1) if count % parts == 0)


class Pipeline:
    """This rank's stage of `model`, rank r being stage r of the process group.

    loss_sum: the sum of the loss over a batch, of (logits_NK, targets). micro_batches: parts of
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
                self._layers = _Layers(part.to(device), forward)
        # Moving a module can replace its tensors
        self._owner |= dict.fromkeys(map(id, _tensors(self._layers)), self._rank)
        self._schedules: dict[tuple[int, bool], ScheduleGPipe] = {}

    @property
    def last(self) -> bool:
        """Whether this rank computes the logits and the loss."""
        return self._rank == self._stages - 1

    def owns(self, tensor: Tensor) -> bool:
        """Whether this rank trains a parameter, or keeps a buffer, of the model."""
        return self._owner[id(tensor)] == self._rank

    def backward(self, x_NCHW: Tensor, targets: Tensor) -> Tensor:
        """Add the gradients of the mean loss over the batch; the sum of the loss, 0 but on `last`.

        Called with the batch on every rank; the first stage reads its images, the last its targets.
        """
        means: list[Tensor] = []
        wanted: dict[str, Any] = {"target": targets, "losses": means} if self.last else {}
        schedule = self._schedule(len(targets), training=True)
        schedule.step(*self._input(x_NCHW), return_outputs=False, **wanted)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        for mean in means:
            total += mean.detach()
        return total * len(targets)

    def logits(self, x_NCHW: Tensor) -> Tensor | None:
        """logits_NK of the batch on the `last` rank; None on the others."""
        schedule = self._schedule(len(x_NCHW), training=False)
        logits_NK: Tensor | None = schedule.step(*self._input(x_NCHW))
        return logits_NK

    def _input(self, x_NCHW: Tensor) -> tuple[Tensor, ...]:
        return (x_NCHW,) if self._rank == 0 else ()

    def _schedule(self, count: int, *, training: bool) -> ScheduleGPipe:
        # A schedule fixes the shapes that it sends, so every size of batch needs its own
        key = count, training
        if key not in self._schedules:

            def mean(logits_NK: Tensor, targets: Tensor) -> Tensor:
                return self._loss_sum(logits_NK, targets) / count

            stage = PipelineStage(self._layers, self._rank, self._stages, self._device)
            self._schedules[key] = ScheduleGPipe(
                stage,
                micro_batches(count, self._most),
                loss_fn=mean if training else None,
                scale_grads=False,
            )
        return self._schedules[key]


class Stage:
    """One rank's part in a trial that is split, as a `Replica` is in one that is not.

    Every rank reads the whole batch. A step that runs out of memory cannot be taken back, since
    the other stages have gone on.
    """

    def __init__(self, setup: Setup) -> None:
        self._model, self._ranks, self._batcher = setup.model, setup.ranks, setup.batcher
        self._loss = setup.loss
        parts = PARTS_PER_STAGE * self._ranks.world_size
        self._pipeline = Pipeline(
            self._model,
            loss_sum=self._loss.training,
            micro_batches=parts,
            device=self._ranks.device,
            forward=setup.precision.forward,
        )
        size = setup.settings.batch_size
        self.micro_batch_size = size // micro_batches(size, parts)
        self.evaluation_batch = setup.evaluation_batch

    def share(self, batch_size: int) -> dict[str, int]:
        """The arguments that make `shards` this rank's: all images."""
        return {"batch_size": batch_size}

    def train(self, optimizer: Optimizer) -> None:
        """Prepare for an epoch; `optimizer` is a Replica's matter."""
        self._model.train()

    def eval(self) -> None:
        """Prepare for an evaluation."""
        self._model.eval()

    def backward(self, epoch: Epoch, shard: Shard) -> Tensor:
        """Leave the gradients of the mean loss of a batch; the sum of the loss, on one rank."""
        self._model.zero_grad()
        return self._pipeline.backward(*self._batcher.training_batch(epoch, shard.positions))

    def measure(self, rows_N: Tensor) -> Tensor:
        """`CrossEntropy.evaluated` of the images `rows_N`, on one rank; zeros elsewhere."""
        x_NCHW, labels_N = self._batcher.batch(rows_N)
        views = [self._pipeline.logits(view) for view in self._loss.views(x_NCHW)]
        logits = [logits_NK for logits_NK in views if logits_NK is not None]
        if not logits:
            return self._loss.nothing(self._ranks.device)
        return self._loss.evaluated(logits, labels_N)

    def tensors(self) -> list[Tensor]:
        """The parameters and buffers of this rank's stage."""
        return [tensor for tensor in _tensors(self._model) if self._pipeline.owns(tensor)]

    def gradient_norm(self) -> Tensor:
        """The norm of the gradients of all stages, as one vector."""
        own = nn.utils.get_total_norm(gradients_of(self._model.parameters()))
        (squares,) = self._ranks.reduced([own.item() ** 2])
        return torch.tensor(squares**0.5, dtype=own.dtype, device=own.device)

    def weights(self) -> dict[str, Any]:
        """Copies, on the CPU and on every rank, of all stages' parameters and buffers by name."""
        tensors = self._model.state_dict(keep_vars=True)
        copies = _gathered({n: t for n, t in tensors.items() if self._pipeline.owns(t)})
        return {name: copies[name] for name in tensors}

    def state(self, optimizer: Optimizer) -> dict[str, Any]:
        """All that trains, on the CPU and the same on every rank, as one process would save it."""
        state = optimizer.state_dict()
        numbered = enumerate(p for group in optimizer.param_groups for p in group["params"])
        own = {number for number, parameter in numbered if self._pipeline.owns(parameter)}
        moments = _gathered({n: state["state"][n] for n in own if n in state["state"]})
        return {
            "model": self.weights(),
            "optimizer": {**host_copy(state), "state": {n: moments[n] for n in sorted(moments)}},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Nothing in a state belongs to a stage alone."""


class _Layers(nn.Module):
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


def _gathered(own: dict[Any, Any]) -> dict[Any, Any]:
    """The items of every rank, copied to the CPU."""
    of_all: list[dict[Any, Any]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(of_all, host_copy(own))
    return {name: value for items in of_all for name, value in items.items()}
