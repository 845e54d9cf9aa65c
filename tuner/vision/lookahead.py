"""Lookahead: slow weights that follow those of the optimizer, which go on from them.

Zhang et al. 2019, "Lookahead Optimizer: k steps forward, 1 step back". The share that the slow
weights keep may grow over the training, as in airbench (Jordan 2024): at first the weights move
fast, in the end they are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from tuner.trial.torch_compat import copy_all
from tuner.vision.recipe import RecipeSettings


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
