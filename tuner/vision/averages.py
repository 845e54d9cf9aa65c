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
    """The moving averages of the parameters and buffers of a model.

    average = decay * average + (1 - decay) * present. In update n = 0, 1, ... the decay is at most
    (1 + n) / (10 + n), as in TensorFlow's ExponentialMovingAverage: otherwise the initial weights
    would dominate the first 1 / (1 - decay) updates. Integers, such as BatchNorm's count of
    batches, are copied.

    tensors: returns the present tensors, always in one order, since a forward pass can replace
    buffers. decay: 0 for no average, which costs nothing.
    """

    def __init__(self, tensors: Callable[[], Sequence[Tensor]], *, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self._tensors: Callable[[], Sequence[Tensor]] = tensors if decay else tuple
        self._averages = [tensor.detach().clone() for tensor in self._tensors()]

    @torch.no_grad()
    def begin(self) -> None:
        """Restart from the present values."""
        self.updates = 0
        for average, tensor in zip(self._averages, self._tensors(), strict=True):
            average.copy_(tensor)

    @torch.no_grad()
    def update(self) -> None:
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
        """Within it the model has the averages; values loaded into it then replace them."""
        tensors = self._tensors()
        trained = [tensor.data for tensor in tensors]
        # Only the data changes: the optimizer and the ranks hold the tensors themselves
        for tensor, average in zip(tensors, self._averages, strict=True):
            tensor.data = average
        try:
            yield
        finally:
            for tensor, data in zip(tensors, trained, strict=True):
                tensor.data = data


class Lookahead:
    """Every few steps the slow weights move towards the present ones, which continue from there.

    slow = keep * slow + (1 - keep) * present, for BatchNorm's statistics, too, with
    keep = lookahead_decay * (steps done / total) ** lookahead_power. It also happens after the last
    step of an epoch, so that only the slow weights are evaluated and saved.

    tensors: returns the parameters and buffers, always in one order. total: steps of the training.
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
        self._since += 1
        if self._steps and (last or self._since % self._steps == 0):
            present = self._floats()
            keep = self._decay * math.pow(min(done / self._total, 1), self._power)
            with torch.no_grad():
                get_ema_multi_avg_fn(keep)(self._slow, present, done)
                copy_all(present, self._slow)

    def _floats(self) -> list[Tensor]:
        return [t for t in self._tensors() if t.is_floating_point() or t.is_complex()]
