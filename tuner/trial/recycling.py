"""Whether the process that has trained one trial may train the next."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from tuner import ray_compat
from tuner.trial.failures import Failure, failure_of
from tuner.trial.guard import Children
from tuner.trial.memory import held_mib, release
from tuner.trial.worker_death import NOTES

BOUND_MIB = 512.0  # that a process may keep of its earlier trials
RAISED = ("exception", "oom")  # failures that may leave anything behind; a NaN leaves nothing


class WorkerReplacedError(RuntimeError):
    """Ends a worker's process that is not to begin the next trial, which goes elsewhere."""


def is_recycled(error: BaseException | None) -> bool:
    """Whether a trial ended only because its process was not to be used again."""
    return isinstance(getattr(error, "cause", error), WorkerReplacedError)


def why_not_again(
    *, failure: Failure | None = None, grown_mib: float = 0.0, ended_children: int = 0
) -> str | None:
    """Why a process is not to be used again; None where it is.

    failure: of its last trial. grown_mib: what it keeps, as `Leftovers` counts it. ended_children:
    how many processes were ended that the trial had left, on which its modules may still rely.

    >>> why_not_again(failure=Failure("nan", "'val_loss' is nan"), grown_mib=20) is None
    True
    >>> why_not_again(grown_mib=600)
    'it has kept 600 MiB of earlier trials'
    """
    if failure is not None and failure.poisoned:
        return "its device cannot be used any more"
    if failure is not None and failure.kind in RAISED:
        return f"a trial failed in it ({failure.kind})"
    if ended_children:
        return f"a trial left {ended_children} process{'es' * (ended_children > 1)} running"
    if grown_mib > BOUND_MIB:
        return f"it has kept {grown_mib:.0f} MiB of earlier trials"
    return None


def must_move() -> bool:
    """Whether a node is about to leave on which this process or a worker of its trial runs."""
    import ray
    from ray.util.placement_group import get_current_placement_group, placement_group_table

    if NOTES in os.environ or not ray.is_initialized():  # a Ray of our own is one node
        return False
    leaving = ray_compat.draining_nodes()
    if not leaving:
        return False
    placed = placement_group_table(get_current_placement_group())["bundles_to_node_id"]
    return not {ray.get_runtime_context().get_node_id(), *placed.values()}.isdisjoint(leaving)


class Leftovers:
    """What a process keeps of its trials.

    grown_mib: the memory, 0 or more, beyond what it kept after the first one, to which belongs what
    is made once (imports, the data, the allocator's reserves).
    """

    def __init__(self, held: Callable[[], float] = held_mib) -> None:
        self.grown_mib = 0.0
        self._held = held
        self._first_mib: float | None = None
        self._put_back: Callable[[], None] | None = None
        self._environment: dict[str, str] | None = None
        self.children = Children()

    def begin(self) -> None:
        """Note the process's state once the trial's modules are imported, before it begins."""
        self._environment = dict(os.environ)
        self.children.begin()
        if "torch" in sys.modules:
            from tuner.trial.torch_compat import remember_numerics

            self._put_back = remember_numerics()

    def clear(self) -> str | None:
        """Put back what the trial that has ended has set, end its children, release its memory.

        Returns why the process should not train another.
        """
        if self._put_back is not None:
            self._put_back()
        if self._environment is not None:
            _restore(self._environment)
        unusable = _released()
        ended = self.children.end()
        self.grown_mib = self._growth()
        return unusable or why_not_again(grown_mib=self.grown_mib, ended_children=ended)

    def _growth(self) -> float:
        now = self._held()
        if self._first_mib is None:
            self._first_mib = now
            # What is there now stays. Later collections pass over it; else each would take 0.2 s
            # between two short trials
            gc.freeze()
        return max(0.0, now - self._first_mib)


def _released() -> str | None:
    """Release what nothing needs any more; why the process is not to be used again.

    After some errors every call to the device fails, these, too. That is the last trial's failure
    and no other's, and what else is to be cleared away still is.
    """
    try:
        if "torch" in sys.modules:
            from tuner.trial.torch_compat import forget_compiled

            forget_compiled()
        release()
    except RuntimeError as error:
        return why_not_again(failure=replace(failure_of(error), poisoned=True))
    return None


def _restore(environment: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
