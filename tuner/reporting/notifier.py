"""Notifies users of a search that they do not watch: its end, its first failure, a new best.

Each target has a thread of its own, so that none holds up the search or another target.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from tuner.experiment.events import (
    CHECKPOINT,
    EXPERIMENT_ENDED,
    FAILED,
    RESULT,
    RUNNING,
    TRIAL_ENDED,
    TRIAL_STATUSES,
    Event,
    standing_of,
)
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.reporting.deliveries import (
    BEST,
    BEST_EVERY_S,
    END,
    FAILURE,
    Message,
    Outbox,
    deliveries,
    flush,
)
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.notify import hidden, is_hidden
from tuner.wording import duration, number, printable, shorten

_log = logging.getLogger(__name__)

_STATUSES = (RUNNING, *TRIAL_STATUSES)
_LONGEST = 500  # characters of a failure's message


class Notifier:
    """An observer of events that notifies the spec's targets.

    history: the experiment's, up to the event that is being observed. Raises UsageError for a
    target that cannot work.
    """

    def __init__(
        self, spec: ExperimentSpec, history: History, *, best_every_s: float = BEST_EVERY_S
    ) -> None:
        self._spec, self._history = spec, history
        self._best = history.best
        self._has_ended = False
        self._outboxes = [
            Outbox(hidden(target), deliver, best_every_s=best_every_s)
            for target, deliver in deliveries(spec.notify).items()
        ]
        for target in filter(is_hidden, spec.notify):
            _log.warning(
                "%s is not notified: the rest of it may be a secret and was not kept; give "
                "--notify again, or write what is secret as ${NAME}",
                target,
            )

    def __call__(self, event: Event) -> None:
        """Take one event, which is journaled already."""
        kind, best = event["event"], self._history.best
        if kind in (RESULT, CHECKPOINT) and best != self._best:
            self._put(BEST, event["time"])
        elif kind == TRIAL_ENDED and event["status"] == FAILED:
            if len(self._history.of_status(FAILED)) == 1:
                failure = {"trial_id": event["trial_id"], **event["error"]}
                self._put(FAILURE, event["time"], failure)
        elif kind == EXPERIMENT_ENDED:
            self._put(END, event["time"])
        self._best = best  # also that of the runs before this one, which is no news

    def close(self) -> None:
        """Deliver what still waits, for a few seconds at most."""
        if not self._has_ended:  # the journal could not take its end, or Ray has died
            self._put(END, time.time())
        flush(self._outboxes)
        self._outboxes = []

    def _put(self, kind: str, now: float, failure: Mapping[str, Any] | None = None) -> None:
        self._has_ended = self._has_ended or kind == END
        if self._outboxes:
            message = message_of(kind, self._spec, self._history, now, failure)
            for outbox in self._outboxes:
                outbox.put(kind, message)


def message_of(
    kind: str,
    spec: ExperimentSpec,
    history: History,
    now: float,
    failure: Mapping[str, Any] | None = None,
) -> Message:
    """What is sent, as plain values; docs/notify.md has an example."""
    status = history.status
    if kind == END and status == RUNNING:  # no event has told how it ended
        status = FAILED
    best = history.best
    message = {
        "event": kind,
        "experiment": spec.name,
        "location": ExperimentFolder(spec.folder).location,
        "time": now,
        "status": standing_of(status, history.ended_by),
        "duration_s": round(history.duration_s, 3),
        "counts": {s: history.counts[s] for s in _STATUSES if history.counts[s]},
        "best": best
        and {
            "trial_id": best.trial_id,
            "epoch": best.epoch,
            "metric": spec.objective.metric,
            "value": best.value,
            "config": history.trials[best.trial_id].config,
        },
        "failure": failure and {**failure, "message": shorten(failure["message"], _LONGEST)},
    }
    return {**message, "text": _text_of(message)}


def _text_of(message: Message) -> str:
    """The message in one line."""
    best, failure = message["best"], message["failure"]
    told = "no trial has reported a value"
    if best:
        where = f"trial {best['trial_id']}, epoch {best['epoch']}"
        told = f"best {best['metric']} {number(best['value'])} ({where})"
    if message["event"] == BEST:
        text = f"{message['experiment']}: {told}"
    elif failure:
        what = f"trial {failure['trial_id']} failed, the first to do so"
        text = f"{message['experiment']}: {what}: {failure['kind']}: {failure['message']}"
    else:
        counts = ", ".join(f"{count} {status}" for status, count in message["counts"].items())
        took = f"{message['status']} after {duration(message['duration_s'])}"
        text = f"{message['experiment']}: {took}; {counts or 'no trials'}; {told}"
    return printable(text)
