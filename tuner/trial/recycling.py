"""Whether the process that has trained one trial may train the next."""

from __future__ import annotations

import gc
from collections.abc import Callable

from tuner.trial.failures import Failure
from tuner.trial.process_memory import give_back, held_mib

BOUND_MIB = 512.0  # that a process may keep of its earlier trials
RAISED = ("exception", "oom")  # failures that leave nobody knows what behind; a NaN leaves nothing


def why_not_again(*, failure: Failure | None = None, grown_mib: float = 0.0) -> str | None:
    """Why a process is not to be used again; None where it is.

    failure: of its last trial. grown_mib: what it keeps, as `Leftovers` counts it.

    >>> why_not_again(failure=Failure("nan", "'val_loss' is nan"), grown_mib=20) is None
    True
    >>> why_not_again(grown_mib=600)
    'it has kept 600 MiB of earlier trials'
    """
    if failure is not None and failure.poisoned:
        return "its device cannot be used any more"
    if failure is not None and failure.kind in RAISED:
        return f"a trial failed in it ({failure.kind})"
    if grown_mib > BOUND_MIB:
        return f"it has kept {grown_mib:.0f} MiB of earlier trials"
    return None


class Leftovers:
    """What a process keeps of its trials, beyond what it kept after the first one.

    What is made once (imports, the data, the allocator's reserves) belongs to the first.
    """

    def __init__(self, held: Callable[[], float] = held_mib) -> None:
        self._held = held
        self._first_mib: float | None = None

    def clear(self) -> float:
        """Give back what the trial that has ended held; MiB, 0 or more, that stay all the same."""
        give_back()
        now = self._held()
        if self._first_mib is None:
            self._first_mib = now
            # What is there now stays. Later collections, which it would make take 0.2 s each
            # between two short trials, pass over it.
            gc.freeze()
        return max(0.0, now - self._first_mib)
