"""When a Learner's checkpoint is written: before its epoch is reported, beside training, or not.

A checkpoint has to be there when something is decided about its trial: at a rung, at the end. In
between it serves a kill alone. There an epoch waits for it where that takes next to nothing of the
epoch; else a copy of the state is written while the trial trains on, every few seconds.

Whenever a checkpoint is journaled, so is that of the trial's best epoch until then: what goes on
from the newest would never come by the best again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tuner.spec.sections import Objective

_LEAST_SHARE = 0.02  # of an epoch, which is not worth a thread


class Save(StrEnum):
    """What becomes of the state after an epoch."""

    NOW = "now"  # written before the epoch is reported
    BESIDE = "beside"  # copied, and written while the trial trains on
    HOLD = "hold"  # copied, and written with the next one that is


@dataclass(frozen=True, slots=True)
class SaveRules:
    """What all trials of a search share.

    every_s: seconds between two checkpoints that are written beside training. rungs: epochs after
    which a trial may be stopped. mode: the objective's.
    """

    every_s: float = 5.0
    rungs: frozenset[int] = frozenset()
    mode: Literal["min", "max"] = "min"


class SavePolicy:
    """The choices for one trial, which is asked about each of its epochs in turn.

    reported: the last epoch whose report is journaled when the trial begins. Those up to it are run
    again, and each is written at once: its report has to be corrected, which its line does.
    """

    def __init__(self, rules: SaveRules, *, reported: int = 0) -> None:
        self._rules = rules
        self._objective = Objective(mode=rules.mode)
        self._reported = reported
        self._best: float | None = None
        self._write_s = math.inf  # how long the last one took that was waited for
        self._began = -math.inf  # when the last one was begun

    def is_best(self, value: float) -> bool:
        """Take in the epoch's value of the objective; whether it is the trial's best so far."""
        if not self._objective.is_better(value, self._best):
            return False
        self._best = value
        return True

    def choose(
        self,
        epoch: int,
        *,
        is_best: bool,
        is_last: bool,
        epoch_s: float,
        is_writing: bool,
        now: float,
    ) -> Save | None:
        """What becomes of the state after `epoch`; None: nothing.

        is_last: whether the trial ends with it. epoch_s: how long it trained. is_writing: whether
        an earlier one is still being written. now: seconds of a clock that is not set.
        """
        is_cheap = self._write_s <= _LEAST_SHARE * epoch_s
        is_decided = is_last or epoch in self._rules.rungs or epoch <= self._reported
        if is_cheap or is_decided or self._write_s == math.inf:
            self._began = now
            return Save.NOW
        if not is_writing and now - self._began >= self._rules.every_s:
            self._began = now
            return Save.BESIDE
        return Save.HOLD if is_best else None

    def waited(self, seconds: float) -> None:
        """Take in how long the trial waited for a checkpoint to be written."""
        self._write_s = seconds
