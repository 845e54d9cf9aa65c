"""How a driver takes up a search from the journal: its state, and its unfinished trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tuner.errors import JournalError
from tuner.experiment import events
from tuner.experiment.changes import Lengths
from tuner.experiment.history import History
from tuner.experiment.trials import TrialRecord
from tuner.spec.sections import Objective

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import InOrder

_REPORTED = {"done": True}  # in place of a report that a strategy has learned from


def replay_events(
    journaled: Iterable[events.Event],
    history: History,
    scheduler: InOrder,
    metric: str,
    lengths: Lengths,
) -> Iterator[events.Event]:
    """The earlier events, each after `history` and `scheduler` have taken it in.

    Trials completed at a shorter length are reopened. Raises JournalError without the objective.
    """
    for event in journaled:
        if event["event"] == events.RESULT:
            trial_id = event["trial_id"]
            epoch = event["epoch"]
            if metric not in event["metrics"]:
                report = f"the report of trial {trial_id}, epoch {epoch}"
                raise JournalError(f"{report}, lacks the objective {metric!r}")
            trial = history.trials.get(trial_id)
            # Saves the memory of another string
            known_id = trial.trial_id if trial else trial_id
            scheduler.record(known_id, epoch, event["metrics"])
            if lengths.now is not None and epoch >= lengths.now:
                scheduler.stopped.discard(known_id)  # a complete trial is never stopped
        history.apply(event)
        if event["event"] == events.TRIAL_ENDED and event["status"] in (
            events.COMPLETED,
            events.STOPPED,
        ):
            trial = history.trials[event["trial_id"]]
            if lengths.should_reopen(trial):
                history.reopen(trial.trial_id)
            else:
                history.compact_trial(trial.trial_id)
        yield event


def list_unfinished(
    history: History, *, retry_failed: bool = False
) -> list[TrialRecord]:
    """The trials that had not ended, and with `retry_failed` the failed ones, sorted by id."""
    statuses = [
        events.RUNNING,
        events.INTERRUPTED,
        *([events.FAILED] if retry_failed else []),
    ]
    return sorted(
        history.list_by_status(*statuses), key=lambda trial: int(trial.trial_id)
    )


def sort_unfinished(
    trials: Iterable[TrialRecord], lengths: Lengths, objective: Objective
) -> list[TrialRecord]:
    """Unfinished trials in the order in which they go on: reopened ones last, the best first."""

    def rank_trial(trial: TrialRecord) -> tuple[bool, float]:
        reopened = trial.last_epoch in lengths.before
        loss = (
            objective.compute_loss(trial.best.estimate)
            if reopened and trial.best
            else 0.0
        )
        return reopened, loss

    return sorted(trials, key=rank_trial)


def find_last_result(trial: TrialRecord) -> dict[str, Any]:
    """The last report of a trial as a searcher takes it; empty before the first."""
    last = trial.results[-1:]
    return {**last[0].metrics, "training_iteration": last[0].epoch} if last else {}


def replay_trials(strategy: Any, journaled: Iterable[events.Event]) -> None:
    """Replay a journal's trials to a `strategy` that learns."""
    if not hasattr(strategy, "take_trial"):
        return
    latest: dict[str, dict[str, Any]] = {}  # trial_id -> its latest report
    for event in journaled:
        kind = event["event"]
        trial_id = event.get("trial_id", "")
        if kind == events.TRIAL_STARTED and trial_id not in latest:
            strategy.take_trial(trial_id, event["config"])
            latest[trial_id] = {}
        elif kind == events.TRIAL_STARTED:
            strategy.go_on(trial_id)  # even if it had ended
        elif kind == events.RESULT:
            latest[trial_id] = {
                **event["metrics"],
                "training_iteration": event["epoch"],
            }
            strategy.on_trial_result(trial_id, latest[trial_id])
        elif kind == events.TRIAL_ENDED and event["status"] == events.FAILED:
            is_at_fault = event["error"]["kind"] != "node_lost"
            strategy.on_trial_complete(trial_id, None, error=is_at_fault)
        elif kind == events.TRIAL_ENDED and event["status"] != events.INTERRUPTED:
            strategy.on_trial_complete(trial_id, latest[trial_id] or None)
            if latest[trial_id]:
                # Saves memory: there may be 100,000 trials
                latest[trial_id] = _REPORTED


def replay_end(strategy: Any, trial: TrialRecord) -> None:
    """Replay the end of a trial to a `strategy` that learns; its driver was killed before it."""
    if hasattr(strategy, "take_trial"):
        strategy.on_trial_complete(trial.trial_id, find_last_result(trial) or None)
