"""One rank's part in a trial that is not split: the whole model on its device.

Ranks that hold replicas divide each batch among them and average their gradients.
"""

# N images, C channels, H W pixels

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tuner.classifier.batches import Batcher, Epoch, Shard, micro_shards
from tuner.classifier.catalog import model_info
from tuner.classifier.collectives import Ranks
from tuner.classifier.loss import CrossEntropy
from tuner.classifier.micro_batch import Buffers, MicroBatch
from tuner.classifier.precision import Precision
from tuner.classifier.settings import ClassifierSettings
from tuner.classifier.transfer import rest_frozen_norms
from tuner.trial.state import host_copy

OVERLAPPING = ("cuda",)  # where ranks exchange gradients while they still compute
EVALUATION_BATCH = 125  # images that a rank evaluates at once on a CPU: more only takes memory
CUDA_EVALUATION_BATCH = 1000  # on a GPU, where memory allows


@dataclass(frozen=True, slots=True)
class Setup:
    """What a rank computes with: the model, whole or in stages, and what feeds and measures it."""

    model: nn.Module
    settings: ClassifierSettings
    ranks: Ranks
    batcher: Batcher
    loss: CrossEntropy
    precision: Precision

    @property
    def evaluation_batch(self) -> int:
        """Images that this rank evaluates at once, where its memory allows."""
        on_cuda = self.ranks.device.type == "cuda"
        return CUDA_EVALUATION_BATCH if on_cuda else EVALUATION_BATCH


class Replica:
    """Computes this rank's share of each batch, in parts as small as its memory demands.

    evaluation_batch: images of a split that all ranks evaluate at once.
    """

    def __init__(self, setup: Setup, scaler: torch.amp.GradScaler) -> None:
        self._model, self._ranks, self._batcher = setup.model, setup.ranks, setup.batcher
        self._loss, self._precision, self._scaler = setup.loss, setup.precision, scaler
        self._settings = setup.settings
        self._rehearsed = 0  # the micro-batch that every rank is known to have the memory for
        self._uses_all: bool | None = None  # whether a step leaves no parameter without gradient
        self._wrap()
        world_size, device = self._ranks.world_size, self._ranks.device
        self._micro = MicroBatch(
            ceil(setup.settings.batch_size / world_size),
            device=device,
            buffers=self._buffers(),
            purpose="training",
        )
        own = setup.evaluation_batch
        self._evaluation_micro = MicroBatch(own, device=device, purpose="evaluation")
        self.evaluation_batch = own * world_size

    @property
    def micro_batch_size(self) -> int:
        """Images that this rank computes at once."""
        return self._micro.size

    def share(self, batch_size: int) -> dict[str, int]:
        """The arguments that make `shards` this rank's."""
        return self._ranks.share(batch_size)

    def train(self) -> None:
        """Prepare for an epoch, in which other parameters may train than in the one before."""
        if self._training() != self._wrapped:
            self._wrap()
        self._network.train()
        rest_frozen_norms(self._model)

    def eval(self) -> None:
        """Prepare for an evaluation, in which all ranks evaluate one model."""
        self._ranks.share_buffers(self._model)
        self._model.eval()

    def backward(self, epoch: Epoch, shard: Shard) -> Tensor:
        """Leave the gradients of the mean loss of a global batch; the sum of this rank's loss."""
        # Once ranks exchange gradients, none can repeat the step because it is out of memory. So
        # they agree first that a size fits. From then on, on CUDA, they overlap the exchange with
        # computing.
        if self._rehearsed == self._micro.size:
            return self._accumulate(epoch, shard, self._micro.size, overlap=True)
        attempt = partial(self._accumulate, epoch, shard)
        loss_sum = self._micro.run(attempt, agree=self._ranks.smallest)
        if self._ranks.several:
            self._exchange()
        return loss_sum

    def measure(self, rows_N: Tensor) -> Tensor:
        """`CrossEntropy.evaluated` of the images `rows_N`."""
        return self._evaluation_micro.run(partial(self._measure, rows_N))

    def tensors(self) -> list[Tensor]:
        """The parameters and buffers of the model that are this rank's: all of them."""
        return [*self._model.parameters(), *self._model.buffers()]

    def gradient_norm(self) -> Tensor:
        """The norm of the gradients of all parameters, as one vector."""
        return nn.utils.get_total_norm(gradients_of(self._model.parameters()))

    def weights(self) -> dict[str, Any]:
        """Copies, on the CPU, of the model's parameters and buffers by name."""
        copies: dict[str, Any] = host_copy(dict(self._model.state_dict()))
        return copies

    def state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Copies, on the CPU, of what trains."""
        return {
            "model": self.weights(),
            "optimizer": host_copy(optimizer.state_dict()),
            "micro_batch_size": self._micro.size,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on with the micro-batch of a state, if it has one."""
        self._micro.size = state.get("micro_batch_size", self._micro.size)

    def _buffers(self) -> Buffers:
        if model_info(self._settings.model).foreign:  # it may put others in their place
            return lambda: list(self._model.buffers())
        fixed = list(self._model.buffers())
        return lambda: fixed

    def _exchange(self) -> None:
        """Average the gradients of a step over the ranks.

        A network may leave out parameters, always or now and then, and on one rank alone. Where its
        first step leaves out some, the ranks agree at each step on which; no later step overlaps.
        """
        trained = [p for p in self._model.parameters() if p.requires_grad]
        if self._uses_all is not True:
            used = self._ranks.used_by_any(trained)
            self._uses_all = all(used) if self._uses_all is None else False
            trained = [p for p, is_used in zip(trained, used, strict=True) if is_used]
        self._ranks.average_gradients(trained)
        if self._uses_all and self._ranks.device.type in OVERLAPPING:
            self._rehearsed = self._micro.size

    def _training(self) -> list[bool]:
        return [parameter.requires_grad for parameter in self._model.parameters()]

    def _wrap(self) -> None:
        module = self._model
        if self._settings.compile:
            module = cast(nn.Module, torch.compile(module))
        self._network = self._ranks.wrapped(self._model, module)
        self._wrapped = self._training()
        self._rehearsed = 0  # more gradients, more memory
        self._uses_all = None

    def _accumulate(
        self, epoch: Epoch, shard: Shard, size: int, *, overlap: bool = False
    ) -> Tensor:
        """Gradients of a global batch, `size` images at a time; the sum of this rank's loss."""
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._ranks.device)
        self._model.zero_grad()
        parts = micro_shards(shard, size=size, world_size=self._ranks.world_size)
        for number, part in enumerate(parts, 1):
            exchange = overlap and number == len(parts)
            x_NCHW, targets = self._batcher.training_batch(epoch, part.positions)
            context = nullcontext() if exchange else self._ranks.without_exchange(self._network)
            with context:
                with self._precision.forward():
                    loss = self._loss.training(self._network(x_NCHW), targets)
                # Averaging over the ranks divides by the world size; the weight makes that the
                # mean over the global batch, also with unequal shares. No images: weight 0.
                weight = self._ranks.world_size / part.global_count if part.count else 0.0
                self._scaler.scale(loss * weight).backward()
            if part.count:
                loss_sum += loss.detach()
        return loss_sum

    def _measure(self, rows_N: Tensor, size: int) -> Tensor:
        sums = self._loss.nothing(self._ranks.device)
        for part_N in rows_N.split(size):
            x_NCHW, labels_N = self._batcher.batch(part_N)
            with self._precision.forward():
                views = [self._model(view) for view in self._loss.views(x_NCHW)]
                sums += self._loss.evaluated(views, labels_N)
        return sums


def gradients_of(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The gradients that there are."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
