"""Why no trial of a search runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from tuner.experiment.journal import Clock
from tuner.wording import format_amount, format_duration

FIRST_S = 60.0
AGAIN_S = 1800.0  # without a trial that runs: until the first warning, the next
_POLL_S = 1.0
_LOOK_EVERY_S = 3.0  # at what trials print that begin

_log = logging.getLogger(__name__)


class Waiting(Callback):
    """Logs why no trial runs, while trials wait for one, and shows what those print that begin.

    why: returns the reason, or None if there is none. starting: returns how many workers are
    starting: they hold the resources that their trials reserve, so none is short. output: returns
    what one of these trials printed last.
    """

    def __init__(
        self,
        why: Callable[[], str | None],
        *,
        starting: Callable[[], int],
        output: Callable[[list[str]], str | None],
        show: Callable[[str], object],
        clock: Clock = time.monotonic,
    ) -> None:
        self._why = why
        self._starting = starting
        self._output = output
        self._show = show
        self._shown: str | None = None
        self._clock = clock
        self._since = self._polled = self._looked = clock()
        self._after = FIRST_S

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        now = self._clock()
        if now - self._polled < _POLL_S:
            return
        self._polled = now
        states = {trial.status for trial in trials}
        if Trial.RUNNING in states or Trial.PENDING not in states:
            self._since = self._looked = now
            self._after = FIRST_S
            return
        if now - self._looked >= _LOOK_EVERY_S:
            self._looked = now
            text = self._output(
                [
                    str(trial.config["trial_id"])
                    for trial in trials
                    if trial.status == Trial.PENDING
                ]
            )
            if text and text != self._shown:
                self._show(text)
                self._shown = text
                self._since = now  # a worker that prints is at work
                self._after = FIRST_S
        if now - self._since >= self._after:
            if reason := self._find_reason():
                _log.warning(
                    "no trial has run for %s: %s",
                    format_duration(now - self._since),
                    reason,
                )
            self._after += AGAIN_S if reason else FIRST_S

    def _find_reason(self) -> str | None:
        if starting := self._starting():
            return f"{format_amount(starting, 'worker')} still starting"
        return self._why()
