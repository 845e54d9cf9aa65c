"""A model that does not fit one device, in stages over several ranks: GPipe (Huang et al. 2019).

Every rank builds the complete model on the host, from the same seed, and moves its stage to its
device. Gradients are those of the complete batch: each micro-batch adds its part of one sum.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import combinations, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.optim import Optimizer

from tuner.trial.state import copy_to_host
from tuner.vision.epochs import Epoch, Shard
from tuner.vision.replica import (
    Setup,
    choose_evaluation_batch,
    list_gradients,
    list_tensors,
)

# micro-batches at once: with more, stages idle less, but parts are smaller
PARTS_PER_STAGE = 4

Context = Callable[[], AbstractContextManager[None]]


def list_layers(model: nn.Module) -> list[nn.Module]:
    """The layers of `model`, an nn.Sequential, flattened."""
    parts = model.children() if isinstance(model, nn.Sequential) else ()
    return [layer for part in parts for layer in list_layers(part) or [part]]


def split_costs(costs: Sequence[float], stages: int) -> list[range]:
    """`stages` consecutive ranges of positions in `costs`, of the least maximal cost."""
    inner = combinations(range(1, len(costs)), stages - 1)  # at most some thousand
    every = ((0, *bounds, len(costs)) for bounds in inner)
    best = min(
        every, key=lambda bounds: max(sum(costs[a:b]) for a, b in pairwise(bounds))
    )
    return [range(*pair) for pair in pairwise(best)]


def count_micro_batches(count: int, most: int) -> int:
    """The largest number of equal parts of `count` images, at most `most`."""
    return next(parts for parts in range(min(count, most), 0, -1) if count % parts == 0)


class Stage:
    """One rank's part in a trial that is split: rank r computes stage r of the model.

    Every rank reads the complete batch; the first stage uses its images, the last its targets. A
    step that runs out of memory cannot be repeated, since the other stages have gone on.
    """

    def __init__(self, setup: Setup) -> None:
        self._model = setup.model
        self._ranks = setup.ranks
        self._batcher = setup.batcher
        self.setup = setup
        self._loss = setup.loss
        rank = self._ranks.rank
        stages = self._ranks.world_size
        size = setup.settings.batch_size
        self._most = PARTS_PER_STAGE * stages
        self._is_last = rank == stages - 1
        layers = list_layers(self._model)
        costs = [1 + sum(p.numel() for p in layer.parameters()) for layer in layers]
        positions = split_costs(costs, stages)[rank]
        part = nn.Sequential(*(layers[position] for position in positions))
        self._layers = _Layers(
            part.to(self._ranks.device), setup.precision.apply_autocast
        )
        self._owned = set(map(id, list_tensors(self._layers)))
        self._schedules: dict[tuple[int, bool], ScheduleGPipe] = {}
        self.micro_batch_size = size // count_micro_batches(size, self._most)
        self.evaluation_batch = choose_evaluation_batch(
            self._ranks.device, setup.batcher.image_size
        )
        self.share: dict[str, int] = {}  # for `iterate_shards`: all images

    def train(self, optimizer: Optimizer) -> None:
        self._model.train()

    def eval(self) -> None:
        self._model.eval()

    def backward(self, epoch: Epoch, shard: Shard) -> Tensor:
        """Leave the gradients of the mean loss of a batch; the sum of the loss on the last rank."""
        self._model.zero_grad()
        x_NCHW, targets = self._batcher.build_training_batch(epoch, shard.positions)
        means: list[Tensor] = []
        wanted: dict[str, Any] = (
            {"target": targets, "losses": means} if self._is_last else {}
        )
        schedule = self._build_schedule(len(targets), training=True)
        schedule.step(*self._select_input(x_NCHW), return_outputs=False, **wanted)
        total = torch.zeros((), dtype=torch.float64, device=self._ranks.device)
        for mean in means:
            total += mean.detach()
        return total * len(targets)

    def compute_logits(self, rows_N: Tensor) -> Tensor | None:
        """logits_NK of the images `rows_N` on the last rank; None elsewhere."""
        x_NCHW, _ = self._batcher.build_batch(rows_N)
        schedule = self._build_schedule(len(rows_N), training=False)
        views = [
            schedule.step(*self._select_input(view))
            for view in self._loss.build_views(x_NCHW)
        ]
        return self._loss.average_views(views) if self._is_last else None

    def list_tensors(self) -> list[Tensor]:
        """The parameters and buffers of this rank's stage."""
        return [
            tensor for tensor in list_tensors(self._model) if id(tensor) in self._owned
        ]

    def compute_gradient_norm(self) -> Tensor:
        """The norm of the gradients of all stages, as one vector."""
        own = nn.utils.get_total_norm(list_gradients(self._model.parameters()))
        (squares,) = self._ranks.reduce([own.item() ** 2])
        return torch.tensor(squares**0.5, dtype=own.dtype, device=own.device)

    def copy_weights(self) -> dict[str, Any]:
        """Copies, on the CPU and on every rank, of all stages' parameters and buffers by name."""
        tensors = self._model.state_dict(keep_vars=True)
        copies = _gather_items(
            {n: t for n, t in tensors.items() if id(t) in self._owned}
        )
        return {name: copies[name] for name in tensors}

    def build_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """The training state, on the CPU and on every rank, as one process would save it."""
        state = optimizer.state_dict()
        numbered = enumerate(
            p for group in optimizer.param_groups for p in group["params"]
        )
        own = {number for number, parameter in numbered if id(parameter) in self._owned}
        moments = _gather_items(
            {n: state["state"][n] for n in own if n in state["state"]}
        )
        return {
            "model": self.copy_weights(),
            "optimizer": {
                **copy_to_host(state),
                "state": {n: moments[n] for n in sorted(moments)},
            },
        }

    def load(self, state: dict[str, Any]) -> None:
        """Nothing in a state belongs to a stage alone."""

    def _select_input(self, x_NCHW: Tensor) -> tuple[Tensor, ...]:
        # Some versions of torch refuse other strides than the first batch had, as a crop's are
        return (x_NCHW.clone(),) if self._ranks.rank == 0 else ()

    def _build_schedule(self, count: int, *, training: bool) -> ScheduleGPipe:
        # A schedule fixes the shapes that it sends, so every size of batch needs its own
        key = count, training
        if key not in self._schedules:

            def compute_mean_loss(logits_NK: Tensor, targets: Tensor) -> Tensor:
                return self._loss.compute_training_loss(logits_NK, targets) / count

            rank = self._ranks.rank
            stages = self._ranks.world_size
            device = self._ranks.device
            self._schedules[key] = ScheduleGPipe(
                PipelineStage(self._layers, rank, stages, device),
                count_micro_batches(count, self._most),
                loss_fn=compute_mean_loss if training else None,
                scale_grads=False,
            )
        return self._schedules[key]


class _Layers(nn.Module):
    """The layers of one stage; their output, and its gradient, are contiguous in memory."""

    def __init__(self, part: nn.Module, forward: Context) -> None:
        super().__init__()
        self._part = part
        self._context = forward

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


def _gather_items(own: dict[Any, Any]) -> dict[Any, Any]:
    """The items of every rank, copied to the CPU."""
    of_all: list[dict[Any, Any]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(of_all, copy_to_host(own))
    return {name: value for items in of_all for name, value in items.items()}
