"""Whether the process that has trained one trial may train the next."""

from __future__ import annotations

from collections.abc import Callable

from tuner.training.failures import Failure
from tuner.training.process_memory import held_mib

BOUND_MIB = 512.0  # that a process may keep of its earlier trials
RAISED = ("exception", "oom")  # failures that leave nobody knows what behind; a NaN leaves nothing


def why_not_again(*, failure: Failure | None = None, grown_mib: float = 0.0) -> str | None:
    """Why a process is not to be used again; None where it is.

    failure: of its last trial. grown_mib: what it keeps, as `Growth` measures it.

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


class Growth:
    """How much more memory a process holds between trials than it did after its first one.

    What is made once (imports, the data, the allocator's reserves) belongs to the first.
    """

    def __init__(self, held: Callable[[], float] = held_mib) -> None:
        self._held = held
        self._first_mib: float | None = None

    def after_trial(self) -> float:
        """MiB, 0 or more; to be asked when nothing of the trial is needed any more."""
        now = self._held()
        if self._first_mib is None:
            self._first_mib = now
        return max(0.0, now - self._first_mib)
