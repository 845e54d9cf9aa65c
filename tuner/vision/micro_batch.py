"""Recovery from out of memory: the same optimizer step in smaller parts.

If memory runs out, the buffers and the random state are restored, the micro-batch is halved, and
the step is tried again with gradients accumulated. The smaller size stays for later steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import TypeVar

import torch
from torch import Tensor

from tuner.trial.failures import is_out_of_memory
from tuner.trial.memory import release_memory
from tuner.trial.torch_compat import copy_all
from tuner.vision.collectives import select_distinct

T = TypeVar("T")
Buffers = Callable[[], Mapping[str, Tensor]]


def halve_size(size: int) -> int:
    """Half of `size`, rounded up; 0 for a size of 1.

    >>> halve_size(5), halve_size(2), halve_size(1)
    (3, 1, 0)
    """
    return (size + 1) // 2 if size > 1 else 0


class MicroBatch:
    """The present micro-batch.

    size: images that one rank computes at once, at least 1. buffers: returns the tensors that a
    forward pass writes to (BatchNorm's statistics); a failed attempt leaves them, and torch's
    random state, as they were. purpose: the name of the work in messages.
    """

    def __init__(
        self, size: int, *, device: torch.device, buffers: Buffers = dict, purpose: str
    ) -> None:
        self.size = size
        self._purpose = purpose
        self._before = _Snapshot(buffers, device)

    def run(
        self, attempt: Callable[[int], T], *, agree: Callable[[int], int] = int
    ) -> T:
        """The result of `attempt(size)` at the first size that fits in memory.

        `attempt` must discard gradients of earlier attempts. `agree` maps the size that this rank
        wants next, the present one after a success, to the smallest that any rank wants. At a
        micro-batch of 1 the error propagates; other ranks raise torch.OutOfMemoryError.
        """
        while True:
            self._before.update()
            result, error = _run_attempt(attempt, self.size)
            agreed = agree(self.size if result else halve_size(self.size))
            if agreed == self.size:
                return result[0]
            if agreed == 0:
                raise error or torch.OutOfMemoryError(
                    "out of memory on another rank at a micro-batch of 1"
                )
            # Only here, outside of any except block, nothing holds activations any more
            del result, error
            self._before.restore()
            release_memory()
            print(
                f"out of memory in {self._purpose} at a micro-batch of {self.size}: "
                f"going on with {agreed}"
            )
            self.size = agreed

    def compute(self, rows: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """The results of `part` for all `rows`, in parts that fit in memory."""
        return self.run(
            lambda size: torch.cat([part(some) for some in rows.split(size)])
        )

    def rehearse(
        self, attempt: Callable[[int], object], *, agree: Callable[[int], int]
    ) -> None:
        """Find the size as `run` does, then restore the buffers and the random state."""
        self.run(attempt, agree=agree)
        self._before.restore()


def _run_attempt(
    attempt: Callable[[int], T], size: int
) -> tuple[tuple[T, ...], BaseException | None]:
    """((result,), None), or ((), the error or None) if memory ran out."""
    try:
        return (attempt(size),), None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        # An error holds its traceback, and with it every activation: before another attempt it
        # must not outlive this function
        return (), None if halve_size(size) else error


class _Snapshot:
    """A copy of the buffers and the random state before a step."""

    def __init__(self, buffers: Buffers, device: torch.device) -> None:
        self._buffers = buffers
        self._device = device
        self._live: Mapping[str, Tensor] = {}
        self._present: list[Tensor] = []
        self._copies: list[Tensor] = []

    @torch.no_grad()
    def update(self) -> None:
        live = self._buffers()
        before = self._live
        # A forward pass can replace buffers
        if live is before or (
            list(live) == list(before) and all(map(is_, live.values(), before.values()))
        ):
            copy_all(self._copies, self._present)
        else:
            self._live = live
            self._present = [select_distinct(buffer) for buffer in live.values()]
            self._copies = [buffer.detach().clone() for buffer in self._present]
        self._random = torch.get_rng_state()
        if self._device.type == "cuda":
            self._device_random = torch.cuda.get_rng_state(self._device)

    @torch.no_grad()
    def restore(self) -> None:
        live = self._buffers()
        for name, copy in zip(self._live, self._copies, strict=True):
            select_distinct(live[name]).copy_(copy)
        torch.set_rng_state(self._random)
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(self._device_random, self._device)
