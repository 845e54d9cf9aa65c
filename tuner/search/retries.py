"""Which failed trials get another try, from their newest checkpoint."""

from __future__ import annotations

from collections import Counter

from tuner.trial.failures import Failure

MOST = 2  # tries again after a crash


class Retries:
    """Counts what befell each trial.

    A lost node is never the trial's fault and not counted. A process that dies gets `most` more
    tries; but one that dies twice in the same epoch would do so a third time. One whose device is
    no longer usable gets one more, in a new process. What a trial raises, reports or waits for
    comes from its code or config otherwise, and trying again would end the same.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._crashes: Counter[str] = Counter()
        self._epochs: set[tuple[str, int]] = set()
        self._poisoned: set[str] = set()

    def grants(self, trial_id: str, epoch: int, failure: Failure) -> bool:
        """Whether the trial, which had reported `epoch` epochs, goes on after `failure`."""
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
        return self._crashes[trial_id] <= self._most
