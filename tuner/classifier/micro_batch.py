"""Out of memory survived: the same optimizer step in smaller parts.

A step is tried at the present micro-batch. Where memory runs out, what the attempt changed is put
back, the micro-batch is halved, and the step is tried again with gradients accumulated, so that
the batch size keeps its meaning. The smaller size stays for the steps that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TypeVar

import torch
from torch import Tensor

from tuner.trial.failures import is_out_of_memory
from tuner.trial.memory import release
from tuner.trial.torch_compat import copy_all

T = TypeVar("T")
Buffers = Callable[[], Sequence[Tensor]]


def next_smaller(size: int) -> int:
    """Half of `size`, rounded up; 0 below 1, where nothing is left to halve.

    >>> next_smaller(5), next_smaller(2), next_smaller(1)
    (3, 1, 0)
    """
    return (size + 1) // 2 if size > 1 else 0


def alone(wanted: int) -> int:
    """What one process agrees on with itself."""
    return wanted


class MicroBatch:
    """The present micro-batch, and the attempts that it takes to find it.

    size: images that one rank computes at once, at least 1. `buffers` gives what a forward pass
    writes to (BatchNorm's statistics): an attempt that fails leaves them, and torch's random
    state, as they were. purpose: what a message calls the work.
    """

    def __init__(
        self, size: int, *, device: torch.device, buffers: Buffers = tuple, purpose: str
    ) -> None:
        self.size = size
        self._purpose = purpose
        self._before = _Snapshot(buffers, device)

    def run(self, attempt: Callable[[int], T], *, agree: Callable[[int], int] = alone) -> T:
        """What `attempt(size)` returns at the first size that fits in memory.

        `attempt` must drop what an earlier one accumulated. `agree` gets the size that this rank
        wants next, the present one where all went well, and returns the smallest that any rank
        wants. At a micro-batch of 1 the error propagates as it is; on the other ranks a
        torch.OutOfMemoryError that says so.
        """
        while True:
            self._before.update()
            result, error = _try(attempt, self.size)
            agreed = agree(self.size if result else next_smaller(self.size))
            if agreed == self.size:
                return result[0]
            if agreed == 0:
                raise error or torch.OutOfMemoryError(
                    "out of memory on another rank at a micro-batch of 1"
                )
            # Only here, outside of any except block, is nothing left that holds activations
            del result, error
            self._before.restore()
            release()
            print(
                f"out of memory in {self._purpose} at a micro-batch of {self.size}: "
                f"going on with {agreed}"
            )
            self.size = agreed

    def rehearse(self, attempt: Callable[[int], object], *, agree: Callable[[int], int]) -> None:
        """Find the size as `run` does, but leave everything as it was."""
        self.run(attempt, agree=agree)
        self._before.restore()


def _try(attempt: Callable[[int], T], size: int) -> tuple[tuple[T, ...], BaseException | None]:
    """The result of the attempt, alone in a tuple; () and perhaps the error if memory ran out."""
    try:
        return (attempt(size),), None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        # An error holds its traceback, and that every activation, so that it must not outlive
        # this function where the step is tried again
        return (), None if next_smaller(size) else error


class _Snapshot:
    """A copy of what a step changes before the optimizer does: buffers and the random state."""

    def __init__(self, buffers: Buffers, device: torch.device) -> None:
        self._buffers, self._device = buffers, device
        self._live: Sequence[Tensor] = ()
        self._copies: list[Tensor] = []
        self._groups: list[list[int]] = []  # positions of the buffers of each type

    @torch.no_grad()
    def update(self) -> None:
        live = self._buffers()
        if live is not self._live and not _same(live, self._live):
            self._copies = [buffer.detach().clone() for buffer in live]
            by_type: dict[torch.dtype, list[int]] = {}
            for position, buffer in enumerate(live):
                by_type.setdefault(buffer.dtype, []).append(position)
            self._live, self._groups = live, list(by_type.values())
        else:
            self._copy(live, self._copies)
        self._random = torch.get_rng_state()
        if self._device.type == "cuda":
            self._device_random = torch.cuda.get_rng_state(self._device)

    @torch.no_grad()
    def restore(self) -> None:
        self._copy(self._copies, self._buffers())
        torch.set_rng_state(self._random)
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(self._device_random, self._device)

    def _copy(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        for group in self._groups:
            copy_all([targets[n] for n in group], [sources[n] for n in group])


def _same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether they are the same objects: a forward pass can put others in their place."""
    return len(some) == len(others) and all(map(is_, some, others))
