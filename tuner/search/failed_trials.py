"""Why a trial failed, and whether it is tried again."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from ray import cloudpickle
from ray.tune.experiment import Trial

from tuner import ray_compat
from tuner.trial.failures import Failure
from tuner.trial.recycling import is_recycled
from tuner.trial.worker_death import death_of

_MOST_CRASHES = 2  # of a trial that is tried again after each


def error_of(trial: Trial) -> BaseException | None:
    """What Ray says of the trial's death: this process has just written it."""
    try:
        error = cloudpickle.loads(Path(trial.pickled_error_file or "").read_bytes())
    except Exception:  # not written, or not to be read
        return None
    return error if isinstance(error, BaseException) else None


def failure_of(
    error: BaseException | None, call: ray_compat.Call | None, *, report_timeout_s: float
) -> Failure | None:
    """The trial's failure; None where its worker ended between two trials, which is no fault of it.

    call: what the worker had been asked, if known; one that had not answered for so many seconds
    has hung.
    """
    hung_between = call is not None and call.ended and call.method == ray_compat.RESET
    if is_recycled(error) or hung_between:
        return None
    failure = death_of(error)
    if failure.kind == "crash" and call is not None:
        return _silence_of(call, report_timeout_s) or failure
    return failure


def _silence_of(call: ray_compat.Call, limit_s: float) -> Failure | None:
    """The failure of a worker that died after `limit_s` without an answer; None: it was sooner."""
    starting = call.method in (ray_compat.START, ray_compat.RESET)
    what = f"{'did not start' if starting else 'no report'} in {limit_s:g} s"
    if call.ended:
        return Failure("timeout", f"{what}, and its process did not end itself: the driver did")
    if time.monotonic() - call.asked >= limit_s:  # a worker that hangs ends itself
        return Failure("timeout", f"{what}; its log shows where it hung")
    return None


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
