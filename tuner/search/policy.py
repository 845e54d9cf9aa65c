"""What decides in a search: what stops its trials, and what suggests them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tuner.experiment.events import Event
from tuner.experiment.history import collector_paused
from tuner.search.warm_start import WarmStart
from tuner.spec.experiment import ExperimentSpec

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingScheduler


def scheduler_of(spec: ExperimentSpec) -> StoppingScheduler | None:
    """What stops the trials of `spec`; None: nothing does."""
    from tuner.search.schedulers._stopping import Patience, StoppingScheduler

    epochs = spec.stop.patience_epochs
    if spec.scheduler is None:
        return None if epochs is None else StoppingScheduler(spec.objective, Patience(epochs))
    scheduler: StoppingScheduler = spec.scheduler.build(spec.objective, brackets=spec.brackets)
    if epochs is not None:
        scheduler.be_patient(epochs)
    return scheduler


def searcher_of(
    spec: ExperimentSpec,
    *,
    slots: int,
    earlier: Iterator[Event],
    warm_start: WarmStart | None = None,
) -> Any:
    """What suggests the configs of `spec`; it has seen the warm start and the `earlier` events.

    slots: trials that may run at a time. All of `earlier` is read, also for a searcher that does
    not learn.
    """
    from tuner.search.trial_source import replay

    searcher = spec.search.build(
        spec.seed, objective=spec.objective, max_t=spec.epochs, slots=slots
    )
    if warm_start:
        warm_start.add_to(searcher)
    with collector_paused():
        replay(searcher, earlier)
        deque(earlier, maxlen=0)
    return searcher
