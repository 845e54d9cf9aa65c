"""Notifies users of the end of a search, its first failure and new bests.

Each target has its own thread, so that none delays the search or another target.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any

from tuner.errors import UsageError, describe_error, translate_error
from tuner.experiment import events
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.plugins import NOTIFIERS
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.notify import get_scheme, hide_secrets, is_hidden, resolve_variables
from tuner.wording import (
    clean_text,
    format_duration,
    format_number,
    list_counts,
    shorten,
    suggest_install,
)

Message = dict[str, Any]  # plain values; docs/notify.md has an example
Deliver = Callable[[Message], object]

END = "end"
FAILURE = "failure"
BEST = "best"  # kinds of messages
ANSWER_S = 10.0  # for a target to take a message
PAUSES_S = (1.0, 4.0)  # before each new attempt to deliver a message
BEST_EVERY_S = 300.0  # least time between two messages, and before the first
FLUSH_S = 5.0  # to deliver waiting messages when the search ends
_MAX_TEXT = 500  # characters of a failure's message

_log = logging.getLogger(__name__)


def build_deliveries(targets: tuple[str, ...]) -> dict[str, Deliver]:
    """The function that delivers a message, by target; without hidden targets.

    A function raises OSError if a retry may help, else another error. Raises UsageError for a
    target that cannot work on this machine.
    """
    delivers: dict[str, Deliver] = {}
    for target in targets:
        if is_hidden(target):
            continue
        url = resolve_variables(target, os.environ)
        name = hide_secrets(target)
        scheme = get_scheme(url)
        if scheme not in NOTIFIERS.list_names():
            delivers[target] = _build_apprise_delivery(url, name)
            continue
        with translate_error(
            UsageError, f"notify: {name} by {NOTIFIERS.describe(scheme)}"
        ):
            delivers[target] = NOTIFIERS.load(scheme)(url)
    return delivers


def build_post_delivery(url: str) -> Deliver:
    return partial(_post_message, url)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without a body."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _post_message(url: str, message: Message) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "tuner"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        urllib.request.build_opener(_NoRedirects).open(
            request, timeout=ANSWER_S
        ).close()
    except urllib.error.HTTPError as error:
        error.close()
        transient = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
        kind = OSError if error.code >= 500 or error.code in transient else UsageError
        raise kind(f"it answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(f"{error.reason}") from None  # `error` may contain the URL


def _build_apprise_delivery(url: str, name: str) -> Deliver:
    try:
        import apprise
    except ImportError:
        raise UsageError(
            f"notify: {name} needs a package: {suggest_install('notify')}"
        ) from None
    # Its messages contain the URL
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    service = apprise.Apprise.instantiate(url)
    if service is None:
        others = ", ".join(NOTIFIERS.list_names())
        hint = f"see `apprise --details`; beside apprise there are {others}"
        raise UsageError(f"notify: apprise does not know {name}; {hint}")

    def deliver(message: Message) -> None:
        if not service.notify(
            body=message["text"], title=f"tuner {message['experiment']}"
        ):
            raise OSError("apprise could not deliver it")

    return deliver


class Notifier:
    """An observer of events that notifies the spec's targets.

    history: that of the experiment, up to the observed event. Raises UsageError for a target that
    cannot work.
    """

    def __init__(
        self,
        spec: ExperimentSpec,
        history: History,
        *,
        best_every_s: float = BEST_EVERY_S,
        pauses_s: tuple[float, ...] = PAUSES_S,
        flush_s: float = FLUSH_S,
    ) -> None:
        self._spec = spec
        self._history = history
        self._best_every_s = best_every_s
        self._flush_s = flush_s
        self._best = history.best
        self._has_new_best = False
        self._best_due = math.inf
        self._has_ended = False
        self._targets = [
            _Target(hide_secrets(target), deliver, pauses_s)
            for target, deliver in build_deliveries(spec.notify).items()
        ]
        for target in filter(is_hidden, spec.notify):
            _log.warning(
                "%s is not notified: the rest of it may be a secret and was not kept; give "
                "--notify again, or write what is secret as ${NAME}",
                target,
            )

    def __call__(self, event: events.Event) -> None:
        """Take one event, which is already in the journal."""
        kind = event["event"]
        now = event["time"]
        best = self._history.best
        if kind == events.EXPERIMENT_STARTED:
            self._best_due = now + self._best_every_s
        elif kind in (events.RESULT, events.CHECKPOINT) and best != self._best:
            self._has_new_best = True
        elif kind == events.TRIAL_ENDED and event["status"] == events.FAILED:
            if len(self._history.list_by_status(events.FAILED)) == 1:
                self._put(
                    FAILURE, now, {"trial_id": event["trial_id"], **event["error"]}
                )
        elif kind == events.EXPERIMENT_ENDED:
            self._put(END, now)
        self._best = best  # includes that of earlier runs
        if self._has_new_best and now >= self._best_due and not self._has_ended:
            self._put(BEST, now)
            self._has_new_best = False
            self._best_due = now + self._best_every_s

    def close(self) -> None:
        """Deliver waiting messages, for a few seconds at most."""
        if not self._has_ended:  # the journal could not take the end, or Ray has died
            self._put(END, time.time())
        deadline = time.monotonic() + self._flush_s
        for target in self._targets:
            target.end()
        for target in self._targets:
            if not target.join(deadline):
                target.warn(f"no answer in {self._flush_s:g} s")
        self._targets = []

    def _put(
        self, kind: str, now: float, failure: Mapping[str, Any] | None = None
    ) -> None:
        self._has_ended = self._has_ended or kind == END
        if self._targets:
            message = build_message(kind, self._spec, self._history, now, failure)
            for target in self._targets:
                target.put(message)


class _Target:
    """Delivers messages to one target in a thread, with retries; the first failure is logged."""

    def __init__(
        self, name: str, deliver: Deliver, pauses_s: tuple[float, ...]
    ) -> None:
        self._name = name
        self._deliver = deliver
        self._pauses_s = pauses_s
        self._messages: SimpleQueue[Message | None] = SimpleQueue()  # None: the end
        self._is_ending = threading.Event()
        self._has_warned = False
        self._thread = threading.Thread(
            target=self._run, daemon=True, name=f"notify {name}"
        )
        self._thread.start()

    def put(self, message: Message) -> None:
        self._messages.put(message)

    def end(self) -> None:
        """End the thread after the waiting messages, which are retried without pauses."""
        self._messages.put(None)
        self._is_ending.set()

    def join(self, deadline: float) -> bool:
        """Wait for the thread until `deadline`, by time.monotonic(); whether it has ended."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def warn(self, reason: str) -> None:
        """Log once that the target cannot be notified."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("cannot notify %s: %s", self._name, reason)

    def _run(self) -> None:
        while (message := self._messages.get()) is not None:
            for pause in (*self._pauses_s, None):
                try:
                    self._deliver(message)
                    break
                except Exception as error:  # apprise raises many kinds
                    if pause is None or not isinstance(error, OSError):
                        self.warn(describe_error(error))
                        break
                self._is_ending.wait(pause)


def build_message(
    kind: str,
    spec: ExperimentSpec,
    history: History,
    now: float,
    failure: Mapping[str, Any] | None = None,
) -> Message:
    status = history.status
    if kind == END and status == events.RUNNING:  # without an event of the end
        status = events.FAILED
    best = history.best
    statuses = (events.RUNNING, *events.TRIAL_STATUSES)
    message = {
        "event": kind,
        "experiment": spec.name,
        "location": ExperimentFolder(spec.folder).location,
        "time": now,
        "status": events.format_status(status, history.ended_by),
        "duration_s": round(history.duration_s, 3),
        "counts": {s: history.counts[s] for s in statuses if history.counts[s]},
        "best": best
        and {
            "trial_id": best.trial_id,
            "epoch": best.epoch,
            "metric": spec.objective.metric,
            "value": best.value,
            "config": history.trials[best.trial_id].config,
        },
        "failure": failure
        and {**failure, "message": shorten(failure["message"], _MAX_TEXT)},
    }
    return {**message, "text": _format_message(message)}


def _format_message(message: Message) -> str:
    best = message["best"]
    failure = message["failure"]
    best_text = "no trial has reported a value"
    if best:
        where = f"trial {best['trial_id']}, epoch {best['epoch']}"
        best_text = f"best {best['metric']} {format_number(best['value'])} ({where})"
    if message["event"] == BEST:
        text = best_text
    elif failure:
        first = f"trial {failure['trial_id']} failed, the first to do so"
        text = f"{first}: {failure['kind']}: {failure['message']}"
    else:
        counts = ", ".join(list_counts(message["counts"]))
        took = f"{message['status']} after {format_duration(message['duration_s'])}"
        text = f"{took}; {counts or 'no trials'}; {best_text}"
    return clean_text(f"{message['experiment']}: {text}")
