"""Schedulers stop trials. Each module is a scheduler (settings and a rule), or `_machinery`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingRule, StoppingScheduler
    from tuner.spec.sections import Objective


def stopping_scheduler(objective: Objective, rule: StoppingRule) -> StoppingScheduler:
    """Ray Tune's scheduler that stops trials by `rule`."""
    from tuner.search.schedulers._stopping import StoppingScheduler

    return StoppingScheduler(objective, rule)
