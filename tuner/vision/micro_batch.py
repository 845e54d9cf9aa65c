"""Out of memory survived: the same optimizer step in smaller parts.

A step is tried at the present micro-batch. Where memory runs out, what the attempt changed is put
back, the micro-batch is halved, and the step is tried again with gradients accumulated, so that
the batch size keeps its meaning. The smaller size stays for the steps that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import TypeVar

import torch
from torch import Tensor

from tuner.trial.failures import is_out_of_memory
from tuner.trial.memory import release
from tuner.trial.torch_compat import copy_all
from tuner.vision.collectives import distinct

T = TypeVar("T")
Buffers = Callable[[], Mapping[str, Tensor]]


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
        self, size: int, *, device: torch.device, buffers: Buffers = dict, purpose: str
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
        self._live: Mapping[str, Tensor] = {}
        self._copies: dict[str, Tensor] = {}
        self._groups: list[tuple[list[Tensor], list[Tensor]]] = []  # copies, live, of each type

    @torch.no_grad()
    def update(self) -> None:
        live = self._buffers()
        if live is self._live or _same(live, self._live):
            for copies, present in self._groups:
                copy_all(copies, present)
        else:
            self._begin(live)
        self._random = torch.get_rng_state()
        if self._device.type == "cuda":
            self._device_random = torch.cuda.get_rng_state(self._device)

    @torch.no_grad()
    def restore(self) -> None:
        """A buffer that the attempt registered, or gave another shape or type, stays as it is."""
        live = {name: distinct(buffer) for name, buffer in self._buffers().items()}
        for name, copy in self._copies.items():
            present = live.get(name, copy)
            if (present.shape, present.dtype) == (copy.shape, copy.dtype):
                present.copy_(copy)
        torch.set_rng_state(self._random)
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(self._device_random, self._device)

    def _begin(self, live: Mapping[str, Tensor]) -> None:
        self._live = live
        present = {name: distinct(buffer) for name, buffer in live.items()}
        self._copies = {name: buffer.detach().clone() for name, buffer in present.items()}
        by_type: dict[torch.dtype, list[str]] = {}
        for name, buffer in present.items():
            by_type.setdefault(buffer.dtype, []).append(name)
        self._groups = [
            ([self._copies[name] for name in names], [present[name] for name in names])
            for names in by_type.values()
        ]


def _same(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    """Whether they are the same objects: a forward pass can put others in their place."""
    return list(some) == list(others) and all(map(is_, some.values(), others.values()))
