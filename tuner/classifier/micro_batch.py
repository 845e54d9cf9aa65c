"""Out of memory survived: the same optimizer step in smaller parts.

A step is tried at the micro-batch in force. Where memory runs out, what the try changed is put
back, the micro-batch is halved, and the step is tried again with gradients accumulated, so that
the batch size keeps its meaning. The size is kept for the steps that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tuner.trial.failures import is_out_of_memory
from tuner.trial.process_memory import give_back

T = TypeVar("T")


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
    """The micro-batch in force, and the tries that it takes to find it.

    size: images that one rank computes at once, at least 1. `buffers` are what a forward pass
    writes to (BatchNorm's statistics): a try that fails leaves them, and torch's random state, as
    they were.
    """

    def __init__(
        self, size: int, *, device: torch.device, buffers: Iterable[Tensor] = (), of: str
    ) -> None:
        self.size = size
        self._of = of
        self._device = device
        self._before = _Before(list(buffers), device)

    def run(self, attempt: Callable[[int], T], *, agree: Callable[[int], int] = alone) -> T:
        """What `attempt(size)` returns at the first size that fits in memory.

        `attempt` must drop what an earlier try accumulated. `agree` gets the size that this rank
        wants next, the present one where all went well, and returns the smallest that any rank
        wants. At a micro-batch of 1 the error propagates as it is; on the other ranks a
        torch.OutOfMemoryError that says so.
        """
        while True:
            self._before.keep()
            tried = _try(attempt, self.size)
            agreed = agree(self.size if tried.done else next_smaller(self.size))
            if agreed == self.size:
                return tried.results[0]
            if agreed == 0:
                raise tried.error or torch.OutOfMemoryError(
                    "out of memory on another rank at a micro-batch of 1"
                )
            # Only here, outside of any except block, is nothing left that holds activations.
            del tried
            self._before.put_back()
            give_back()
            print(
                f"out of memory in {self._of} at a micro-batch of {self.size}: "
                f"going on with {agreed}"
            )
            self.size = agreed


@dataclass(frozen=True, slots=True)
class _Try(Generic[T]):
    """`results` holds the one result of a try that went well."""

    results: tuple[T, ...] = ()
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return bool(self.results)


def _try(attempt: Callable[[int], T], size: int) -> _Try[T]:
    try:
        return _Try((attempt(size),))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        # An error keeps its traceback, and that every activation: not to be kept where the step
        # is tried again.
        return _Try(error=None if next_smaller(size) else error)


class _Before:
    """A copy of what a step changes before the optimizer does: buffers and the random state."""

    def __init__(self, buffers: list[Tensor], device: torch.device) -> None:
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for buffer in buffers:
            by_type.setdefault(buffer.dtype, []).append(buffer)
        # One call a type copies them all, which many small buffers on a GPU need.
        self._pairs = [(live, [b.detach().clone() for b in live]) for live in by_type.values()]
        self._device = device

    @torch.no_grad()
    def keep(self) -> None:
        for live, kept in self._pairs:
            torch._foreach_copy_(kept, live)
        self._random = torch.get_rng_state()
        if self._device.type == "cuda":
            self._device_random = torch.cuda.get_rng_state(self._device)

    @torch.no_grad()
    def put_back(self) -> None:
        for live, kept in self._pairs:
            torch._foreach_copy_(live, kept)
        torch.set_rng_state(self._random)
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(self._device_random, self._device)
