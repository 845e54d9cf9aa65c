"""Averages of the weights: an exponential moving average, and Lookahead.

Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging"; exponential, as in
Tarvainen & Valpola 2017, "Mean teachers are better role models", section 2. Lookahead: Zhang et al.
2019, "Lookahead Optimizer: k steps forward, 1 step back"; the share that the slow weights keep may
grow over the training, as in airbench (Jordan 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from tuner.trial.torch_compat import copy_all
from tuner.vision.recipe import RecipeSettings


class WeightAverage:
    """The moving averages of the tensors of a model, its parameters and buffers.

    An update moves each by 1 - decay of its distance to the present value. In the n-th, n = 0 being
    the first, the decay is at most (1 + n) / (10 + n), as in TensorFlow's ExponentialMovingAverage:
    otherwise the initial weights would weigh on the average for the first 1 / (1 - decay) updates.
    Whole numbers, such as BatchNorm's count of batches, are copied.

    tensors: gives the present ones, always in one order, since a forward pass can put other buffers
    in their place. decay: 0 for no average, which costs nothing.
    """

    def __init__(self, tensors: Callable[[], Sequence[Tensor]], *, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self._tensors: Callable[[], Sequence[Tensor]] = tensors if decay else tuple
        self._averages = [tensor.detach().clone() for tensor in self._tensors()]

    @torch.no_grad()
    def begin(self) -> None:
        """Start anew, from the present values."""
        self.updates = 0
        for average, tensor in zip(self._averages, self._tensors(), strict=True):
            average.copy_(tensor)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present values."""
        if not self.decay:
            return
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        floats: list[tuple[Tensor, Tensor]] = []
        for average, tensor in zip(self._averages, self._tensors(), strict=True):
            if tensor.is_floating_point() or tensor.is_complex():
                floats.append((average, tensor))
            else:
                average.copy_(tensor)
        averages, tensors = map(list, zip(*floats, strict=True))
        get_ema_multi_avg_fn(decay)(averages, tensors, self.updates)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it the model has the averages; what is loaded into it then replaces them."""
        tensors = self._tensors()
        trained = [tensor.data for tensor in tensors]
        _give(tensors, self._averages)
        try:
            yield
        finally:
            _give(tensors, trained)


def _give(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    # The tensors stay the same objects, by which the optimizer and the ranks know them
    for tensor, value in zip(tensors, values, strict=True):
        tensor.data = value


class Lookahead:
    """Every few steps the slow weights move towards the present ones, which go on from there.

    slow = keep * slow + (1 - keep) * present, for BatchNorm's statistics, too, with
    keep = lookahead_decay * (steps done / total) ** lookahead_power. So it is after the last step
    of an epoch, too: what is evaluated are the slow weights, and nothing else need be saved.

    tensors: gives the parameters and buffers, always in one order. total: steps of the training.
    """

    def __init__(
        self, tensors: Callable[[], Sequence[Tensor]], settings: RecipeSettings, *, total: int
    ) -> None:
        self._tensors, self._total = tensors, total
        self._steps = settings.lookahead_steps
        self._decay, self._power = settings.lookahead_decay, settings.lookahead_power
        self._slow: list[Tensor] = []
        self._since = 0

    def begin(self) -> None:
        """Begin an epoch with the present weights."""
        self._since = 0
        if self._steps:
            self._slow = [tensor.detach().clone() for tensor in self._floats()]

    def update(self, done: int, *, last: bool) -> None:
        """After `done` steps of the training; `last`: of an epoch."""
        self._since += 1
        if self._steps and (last or self._since % self._steps == 0):
            self._look(done)

    def keep(self, done: int) -> float:
        """The share that the slow weights keep after so many steps."""
        return self._decay * math.pow(min(done / self._total, 1), self._power)

    @torch.no_grad()
    def _look(self, done: int) -> None:
        present = self._floats()
        get_ema_multi_avg_fn(self.keep(done))(self._slow, present, done)
        copy_all(present, self._slow)

    def _floats(self) -> list[Tensor]:
        return [t for t in self._tensors() if t.is_floating_point() or t.is_complex()]
