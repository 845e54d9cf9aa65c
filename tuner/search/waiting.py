"""Says why no trial runs where that lasts; the search goes on waiting."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from tuner.experiment.clock import Clock
from tuner.wording import duration

FIRST_S, AGAIN_S = 60.0, 1800.0  # without a trial that runs, until it is said; and said again

_POLL_S = 1.0

_log = logging.getLogger(__name__)


class Waiting(Callback):
    """Warns of what `why` says, line by line, while trials wait and none of them runs."""

    def __init__(self, why: Callable[[], list[str]], clock: Clock = time.monotonic) -> None:
        self._why = why
        self._clock = clock
        self._since = self._polled = clock()
        self._after = FIRST_S

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        now = self._clock()
        if now - self._polled < _POLL_S:
            return
        self._polled = now
        states = {trial.status for trial in trials}
        if Trial.RUNNING in states or Trial.PENDING not in states:
            self._since, self._after = now, FIRST_S
        elif now - self._since >= self._after:
            lines = self._why()
            for line in lines:
                _log.warning("no trial has run for %s: %s", duration(now - self._since), line)
            self._after += AGAIN_S if lines else FIRST_S
