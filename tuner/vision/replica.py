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
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tuner.trial.state import copy_to_host
from tuner.trial.torch_compat import Compiled
from tuner.vision.batches import Batcher
from tuner.vision.collectives import Ranks
from tuner.vision.epochs import Epoch, Shard, split_shard
from tuner.vision.freezing import freeze_norm_statistics
from tuner.vision.loss import CrossEntropy
from tuner.vision.micro_batch import MicroBatch
from tuner.vision.model_catalog import find_model_info
from tuner.vision.precision import Precision
from tuner.vision.settings import ClassifierSettings
from tuner.vision.shared_norms import (
    exclude_images,
    freeze_statistics,
    list_shared_norms,
)

# Devices whose ranks exchange gradients while they still compute
OVERLAPPING = ("cuda",)
# Devices where a resumed trial begins with the complete batch again
FOUND_ANEW = ("cuda",)
# Images that a rank evaluates at once on a CPU: more only takes memory
EVALUATION_BATCH = 125
# Pixels that it evaluates at once, whose activations its caches hold: an image of 224 px takes
# twice as long in a batch of 125 as in one of 5
_CACHED_PIXELS = 2**18
CUDA_EVALUATION_BATCH = 1000  # on a GPU, where memory allows


def choose_evaluation_batch(device: torch.device, image_size: int) -> int:
    """Images of `image_size` px that `device` evaluates at once, if its memory allows."""
    if device.type == "cuda":
        return CUDA_EVALUATION_BATCH
    return min(EVALUATION_BATCH, max(1, _CACHED_PIXELS // image_size**2))


@dataclass(frozen=True, slots=True)
class Setup:
    """The model that a rank computes, with its data, its loss and its precision."""

    model: nn.Module
    settings: ClassifierSettings
    ranks: Ranks
    batcher: Batcher
    loss: CrossEntropy
    precision: Precision


class Replica:
    """Computes this rank's share of each batch, in parts as small as its memory demands.

    Once ranks exchange anything, none can repeat a step that ran out of memory: the others would
    wait for it. On the host they exchange nothing before the gradients, so they try each step first
    and agree on its size next. On CUDA BatchNorm exchanges statistics within a step, and
    DistributedDataParallel gradients. There the ranks rehearse a step without any exchange, agree
    on a size that fits all, and only then take it; again when the optimizer holds more tensors.

    evaluation_batch: images of a split that all ranks evaluate at once. share: the arguments that
    make `iterate_shards` this rank's.
    """

    def __init__(self, setup: Setup, scaler: torch.amp.GradScaler) -> None:
        self.setup = setup
        self._scaler = scaler
        self._model = setup.model
        self._ranks = setup.ranks
        self._batcher = setup.batcher
        self._loss = setup.loss
        self._precision = setup.precision
        self._settings = setup.settings
        self._norms = list_shared_norms(self._model)
        self._rehearses = self._ranks.several and self._ranks.device.type in OVERLAPPING
        self._optimizer: Optimizer | None = None
        # A step of a foreign model may leave out parameters, and put other buffers in place
        self._is_foreign = find_model_info(setup.settings.model).foreign
        self._wrap()
        world_size = self._ranks.world_size
        device = self._ranks.device
        fixed = dict(self._model.named_buffers())
        self._micro = MicroBatch(
            ceil(setup.settings.batch_size / world_size),
            device=device,
            buffers=lambda: (
                dict(self._model.named_buffers()) if self._is_foreign else fixed
            ),
            purpose="training",
        )
        size = choose_evaluation_batch(device, setup.batcher.image_size)
        self._evaluation_micro = MicroBatch(size, device=device, purpose="evaluation")
        self.evaluation_batch = size * world_size
        self.share = {"rank": self._ranks.rank, "world_size": world_size}

    @property
    def micro_batch_size(self) -> int:
        return self._micro.size

    def train(self, optimizer: Optimizer) -> None:
        """Prepare for an epoch; other parameters may train than before. `optimizer` steps later."""
        self._optimizer = optimizer
        if self._list_trainable() != self._wrapped:
            self._wrap()
        if self._compiled is not None:
            self._compiled.reset()  # an epoch begins with its largest batch
        self._network.train()
        freeze_norm_statistics(self._model)

    def eval(self) -> None:
        """Prepare for an evaluation, in which all ranks evaluate one model."""
        self._ranks.broadcast(self._model.buffers())
        self._model.eval()

    def backward(self, epoch: Epoch, shard: Shard) -> Tensor:
        """Leave the gradients of the mean loss of a global batch; the sum of this rank's loss."""
        attempt = partial(self._accumulate, epoch, shard)
        if not self._ranks.several:
            return self._micro.run(attempt)
        if not self._rehearses:
            loss_sum = self._micro.run(attempt, agree=self._ranks.find_smallest)
            self._ranks.average_gradients(
                p for p in self._model.parameters() if p.requires_grad
            )
            return loss_sum
        if (
            self._micro.size,
            self._count_optimizer_tensors(),
        ) != self._fits or shard.global_count > self._most:
            self._rehearse(epoch, shard)
        return attempt(self._micro.size, overlap=True)

    def compute_logits(self, rows_N: Tensor) -> Tensor:
        """logits_NK of the images `rows_N`, in the precision that is applied."""
        return self._evaluation_micro.compute(rows_N, self._compute_logits)

    def list_tensors(self) -> list[Tensor]:
        return list_tensors(self._model)

    def compute_gradient_norm(self) -> Tensor:
        """The norm of the gradients of all parameters, as one vector."""
        return nn.utils.get_total_norm(list_gradients(self._model.parameters()))

    def copy_weights(self) -> dict[str, Any]:
        """Copies, on the CPU, of the model's parameters and buffers by name."""
        copies: dict[str, Any] = copy_to_host(dict(self._model.state_dict()))
        return copies

    def build_state(self, optimizer: Optimizer) -> dict[str, Any]:
        return {
            "model": self.copy_weights(),
            "optimizer": copy_to_host(optimizer.state_dict()),
            "micro_batch_size": self._micro.size,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue with the micro-batch of a state, except on a GPU, which may have more room."""
        if self._ranks.device.type not in FOUND_ANEW:
            self._micro.size = state.get("micro_batch_size", self._micro.size)

    def _rehearse(self, epoch: Epoch, shard: Shard) -> None:
        """Find the micro-batch that fits every rank, and leave everything else as it was."""
        with freeze_statistics(self._norms):
            attempt = partial(self._accumulate, epoch, shard, network=self._model)
            self._micro.rehearse(attempt, agree=self._ranks.find_smallest)
        self._model.zero_grad()
        self._fits = (self._micro.size, self._count_optimizer_tensors())
        self._most = shard.global_count

    def _count_optimizer_tensors(self) -> int:
        """The tensors of the optimizer's state."""
        assert self._optimizer is not None
        return sum(map(len, self._optimizer.state.values()))

    def _list_trainable(self) -> list[bool]:
        return [parameter.requires_grad for parameter in self._model.parameters()]

    def _wrap(self) -> None:
        self._compiled = Compiled(self._model) if self._settings.compile else None
        module = self._compiled or self._model
        self._network = self._ranks.wrap_module(
            self._model, module, may_skip=self._is_foreign
        )
        self._wrapped = self._list_trainable()
        # Of the rehearsed step: micro-batch and tensors held, images. More gradients, more memory
        self._fits = (0, 0)
        self._most = 0

    def _accumulate(
        self,
        epoch: Epoch,
        shard: Shard,
        size: int,
        *,
        overlap: bool = False,
        network: nn.Module | None = None,
    ) -> Tensor:
        """Gradients of a global batch, `size` images at a time; the sum of this rank's loss.

        overlap: exchange gradients with the other ranks meanwhile. network: default the one that
        does so.
        """
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._ranks.device)
        self._model.zero_grad()
        parts = split_shard(shard, size=size, world_size=self._ranks.world_size)
        for number, part in enumerate(parts, 1):
            x_NCHW, targets = self._batcher.build_training_batch(epoch, part.positions)
            is_exchanged = overlap and number == len(parts)
            exchange = (
                nullcontext() if is_exchanged else self._ranks.skip_sync(self._network)
            )
            with exchange, nullcontext() if part.count else exclude_images(self._norms):
                with self._precision.apply_autocast():
                    loss = self._loss.compute_training_loss(
                        (network or self._network)(x_NCHW), targets
                    )
                # Averaging over the ranks divides by the world size; the weight makes that the
                # mean over the global batch, also with unequal shares. No images: weight 0
                weight = (
                    self._ranks.world_size / part.global_count if part.count else 0.0
                )
                self._scaler.scale(loss * weight).backward()
            if part.count:
                loss_sum += loss.detach()
        return loss_sum

    def _compute_logits(self, rows_N: Tensor) -> Tensor:
        x_NCHW, _ = self._batcher.build_batch(rows_N)
        return self._loss.compute_logits(self._model, x_NCHW)


def list_tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def list_gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
