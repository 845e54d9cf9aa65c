"""Which failed trials are tried again. Pure."""

from __future__ import annotations

from collections import Counter

from tuner.trial.failures import Failure

_MOST_CRASHES = 2  # of a trial that is tried again after each


class Retries:
    """Decides which failed trials are tried again, from their newest checkpoint.

    A lost node is never the trial's fault and is not counted. A process that dies gets two more
    tries, unless it has died twice in the same epoch, as it would do so a third time. One whose
    device is no longer usable gets one more try, in a new process. Any other failure comes from the
    trial's code or config, and trying again would end the same.
    """

    def __init__(self) -> None:
        self._crashes: Counter[str] = Counter()
        self._epochs: set[tuple[str, int]] = set()
        self._poisoned: set[str] = set()

    def grants(self, trial_id: str, epoch: int, failure: Failure) -> bool:
        """Whether the trial, which had just ended epoch `epoch`, goes on after `failure`."""
        if failure.kind == "node_lost":
            return True
        if failure.poisoned:
            first = trial_id not in self._poisoned
            self._poisoned.add(trial_id)
            return first
        if failure.kind != "crash" or (trial_id, epoch) in self._epochs:
            return False
        self._epochs.add((trial_id, epoch))
        self._crashes[trial_id] += 1
        return self._crashes[trial_id] <= _MOST_CRASHES
