"""One rank's part in a trial that is split: a stage of the model, the other ranks having the rest.

It does what a `Replica` does. Every rank reads the whole batch; a step that runs out of memory
cannot be taken back, since the other stages have gone on.
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from tuner.classifier.data.batches import Epoch, Shard
from tuner.classifier.pipeline import Pipeline, micro_batches
from tuner.classifier.setup import Setup
from tuner.trial.host_copy import host_copy

PARTS_A_STAGE = 4  # micro-batches under way: more leave a stage idle less, and are smaller


class Stage:
    """Computes every batch together with the other stages."""

    def __init__(self, setup: Setup) -> None:
        self._model, self._ranks, self._batcher = setup.model, setup.ranks, setup.batcher
        self._loss = setup.loss
        parts = PARTS_A_STAGE * self._ranks.world_size
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

    def train(self) -> None:
        """Before an epoch."""
        self._model.train()

    def eval(self) -> None:
        """Before an evaluation."""
        self._model.eval()

    def backward(self, epoch: Epoch, shard: Shard) -> Tensor:
        """Leave the gradients of the mean loss of a batch; the sum of the loss, on one rank."""
        self._model.zero_grad()
        return self._pipeline.backward(*self._batcher.training_batch(epoch, shard.positions))

    def measure(self, rows_N: Tensor) -> Tensor:
        """(sum of the loss, number right) of the images `rows_N`, on one rank; zeros elsewhere."""
        x_NCHW, labels_N = self._batcher.batch(rows_N)
        views = [self._pipeline.logits(view) for view in self._loss.views(x_NCHW)]
        found = [logits_NK for logits_NK in views if logits_NK is not None]
        if not found:
            return torch.zeros(2, dtype=torch.float64, device=self._ranks.device)
        return self._loss.evaluated(found, labels_N)

    def state(self, optimizer: Optimizer) -> dict[str, Any]:
        """The whole of what trains, on the CPU and on every rank: as one process would save it."""
        state = optimizer.state_dict()
        numbered = enumerate(p for group in optimizer.param_groups for p in group["params"])
        own = {number for number, parameter in numbered if self._pipeline.owns(parameter)}
        tensors = self._model.state_dict(keep_vars=True)
        model = _gathered({n: t for n, t in tensors.items() if self._pipeline.owns(t)})
        kept = _gathered({n: state["state"][n] for n in own if n in state["state"]})
        return {
            "model": {name: model[name] for name in tensors},
            "optimizer": {**host_copy(state), "state": {n: kept[n] for n in sorted(kept)}},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Nothing of a state is a stage's own."""


def _gathered(own: dict[Any, Any]) -> dict[Any, Any]:
    """The items of every rank, copied to the CPU."""
    of_all: list[dict[Any, Any]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(of_all, host_copy(own))
    return {name: value for items in of_all for name, value in items.items()}
