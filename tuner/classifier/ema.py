"""A moving average of the weights, which generalises better than the last ones.

Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging"; exponential, as in
Tarvainen & Valpola 2017, "Mean teachers are better role models", section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """The moving averages of `tensors`, a model's parameters and buffers.

    An update moves each by 1 - decay of its distance to the present value. In the n-th, n = 0 being
    the first, the decay is at most (1 + n) / (10 + n), as in TensorFlow's ExponentialMovingAverage:
    otherwise the initial weights would weigh on the average for the first 1 / (1 - decay) updates.
    Whole numbers, such as BatchNorm's count of batches, are copied. decay: 0 for no average, which
    costs nothing.
    """

    def __init__(self, tensors: Sequence[Tensor], *, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self._live = list(tensors) if decay else []
        self._averages = [tensor.detach().clone() for tensor in self._live]
        floating = [tensor.is_floating_point() for tensor in self._live]
        pairs = list(zip(self._averages, self._live, strict=True))
        self._floats = [pair for pair, floats in zip(pairs, floating, strict=True) if floats]
        self._others = [pair for pair, floats in zip(pairs, floating, strict=True) if not floats]

    @torch.no_grad()
    def begin(self) -> None:
        """Start anew, from the present values."""
        self.updates = 0
        for average, live in (*self._floats, *self._others):
            average.copy_(live)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present values."""
        if not self._live:
            return
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        averages, live = map(list, zip(*self._floats, strict=True))
        get_ema_multi_avg_fn(decay)(averages, live, self.updates)
        for average, value in self._others:
            average.copy_(value)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it the model has the averages; what is loaded into it then replaces them."""
        trained = [tensor.data for tensor in self._live]
        self._give(self._averages)
        try:
            yield
        finally:
            self._give(trained)

    def _give(self, values: Sequence[Tensor]) -> None:
        # The tensors stay the same objects, by which the optimizer and the ranks know them
        for tensor, value in zip(self._live, values, strict=True):
            tensor.data = value
