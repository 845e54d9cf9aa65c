"""An exponential moving average of the weights.

Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging"; exponential, as in
Tarvainen & Valpola 2017, "Mean teachers are better role models", section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """The moving averages of the parameters and buffers of a model.

    average = decay * average + (1 - decay) * present. In update n = 0, 1, ... the decay is at most
    (1 + n) / (10 + n), as in TensorFlow's ExponentialMovingAverage: otherwise the initial weights
    would dominate the first 1 / (1 - decay) updates. Integers, such as BatchNorm's count of
    batches, are copied.

    tensors: returns the present tensors, always in one order, since a forward pass can replace
    buffers. decay: 0 for no average, which costs nothing.
    """

    def __init__(
        self, tensors: Callable[[], Sequence[Tensor]], *, decay: float
    ) -> None:
        self.decay = decay
        self.updates = 0
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
    def apply_averages(self) -> Iterator[None]:
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
