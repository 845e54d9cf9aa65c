"""Schedulers: they stop trials. Each module is one; those with an underscore are machinery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.spec.schedulers import SCHEDULERS, SchedulerSettings
from tuner.spec.sections import Objective

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingScheduler


def build_scheduler(
    settings: SchedulerSettings, objective: Objective, *, brackets: int = 1
) -> StoppingScheduler:
    """Ray Tune's scheduler for `settings`: it stops trials, and can be told of a journal's."""
    module = SCHEDULERS.extension(settings.name)
    scheduler: StoppingScheduler = module.build(settings, objective, brackets)
    return scheduler
