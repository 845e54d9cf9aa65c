"""Notifies users of a search that they do not watch: its end, its first failure, a new best.

Each target has a thread of its own, so that none holds up the search or another target. A message
waits in a slot of its kind, where a newer one takes its place: what waits is bounded, and the last
one wins. What cannot be delivered is told in one warning, and the search goes on.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from tuner.errors import UsageError, reason_of
from tuner.record.events import (
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
from tuner.record.folder import ExperimentFolder
from tuner.record.history import History
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.notify import COMMAND, filled, hidden, is_hidden, is_web
from tuner.wording import duration, number, printable, shorten

_log = logging.getLogger(__name__)

# The kinds of messages
END, FAILURE, BEST = "end", "failure", "best"

BEST_EVERY_S = 300.0  # at most, and not before the search has run so long
FLUSH_S = 5.0  # at the end, for what still waits
_ANSWER_S = 10.0  # for a target to take a message
_PAUSES_S = (1.0, 4.0)  # before it is tried again
_STATUSES = (RUNNING, *TRIAL_STATUSES)
_LONGEST = 500  # characters of a failure's message

Message = dict[str, Any]
Deliver = Callable[[Message], object]


class RefusedError(Exception):
    """A target has refused a message, and would refuse it again."""


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
        """Deliver what still waits, for at most FLUSH_S seconds."""
        if not self._has_ended:  # the journal could not take its end, or Ray has died
            self._put(END, time.time())
        deadline = time.monotonic() + FLUSH_S
        for outbox in self._outboxes:
            outbox.end()
        for outbox in self._outboxes:
            outbox.join(deadline)
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


class Outbox:
    """Delivers the messages to one target, in a thread of its own.

    name: the target's, to show.
    """

    def __init__(self, name: str, deliver: Deliver, *, best_every_s: float = BEST_EVERY_S) -> None:
        self._name, self._deliver, self._best_every_s = name, deliver, best_every_s
        self._waiting: dict[str, Message] = {}  # by kind, oldest first
        self._best_from = time.monotonic() + best_every_s
        self._changed = threading.Condition()
        self._over, self._warned = False, False
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"notify {name}")
        self._thread.start()

    def put(self, kind: str, message: Message) -> None:
        """Have a message delivered soon; one of its kind that still waits is not."""
        with self._changed:
            if kind == END:
                self._waiting.pop(BEST, None)  # it tells the best as well
            self._waiting[kind] = message
            self._changed.notify()

    def end(self) -> None:
        """Have the thread end once it has delivered what waits."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def join(self, deadline: float) -> None:
        """Wait for its end until `deadline`, by time.monotonic()."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._warn(f"no answer in {FLUSH_S:g} s")

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                self._deliver_patiently(message)
            except Exception as error:  # whatever the target, or apprise, raises
                self._warn(reason_of(error))

    def _next(self) -> Message | None:
        with self._changed:
            while True:
                for kind in self._waiting:
                    if self._wait_of(kind) <= 0:
                        if kind == BEST:
                            self._best_from = time.monotonic() + self._best_every_s
                        return self._waiting.pop(kind)
                if self._over:
                    return None
                self._changed.wait(min(map(self._wait_of, self._waiting), default=None))

    def _wait_of(self, kind: str) -> float:
        """Seconds until a message of this kind may be delivered."""
        return self._best_from - time.monotonic() if kind == BEST else -math.inf

    def _deliver_patiently(self, message: Message) -> None:
        for pause in _PAUSES_S:
            try:
                self._deliver(message)
                return
            except RefusedError:
                raise
            except Exception:
                with self._changed:
                    self._changed.wait_for(lambda: self._over, pause)
        self._deliver(message)

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("cannot notify %s: %s", self._name, reason)


def deliveries(targets: tuple[str, ...]) -> dict[str, Deliver]:
    """What delivers a message to each target, but for those that were hidden.

    Raises UsageError for a target that cannot work here.
    """
    whole = (target for target in targets if not is_hidden(target))
    return {target: _delivery(filled(target, os.environ), hidden(target)) for target in whole}


def _delivery(target: str, name: str) -> Deliver:
    if target.startswith(COMMAND):
        return partial(_run_command, target.removeprefix(COMMAND))
    if is_web(target):
        return partial(_post, target)
    return _apprise(target, name)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected would arrive as a GET without its body."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _post(url: str, message: Message) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "tuner"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_ANSWER_S):
            return
    except urllib.error.HTTPError as error:
        error.close()
        again = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in (
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.TOO_MANY_REQUESTS,
        )
        kind = OSError if again else RefusedError
        raise kind(f"it answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(f"{error.reason}") from None  # `error` may hold the URL


def _run_command(command: str, message: Message) -> None:
    """Run it in a shell, with the message as JSON on stdin; in a session that no Ctrl-C reaches."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,  # stdout is the search's own
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(json.dumps(message).encode(), timeout=_ANSWER_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RefusedError(f"no end in {_ANSWER_S:g} s") from None
    if process.returncode:
        last = shorten(said.decode(errors="replace").strip().rpartition("\n")[2], _LONGEST)
        raise RefusedError(f"exit code {process.returncode}{': ' if last else ''}{last}")


def _apprise(url: str, name: str) -> Deliver:
    import apprise

    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its messages name the URL
    found = apprise.Apprise.instantiate(url)
    if found is None:
        raise UsageError(f"notify: apprise does not know {name}; see `apprise --details`")

    def deliver(message: Message) -> None:
        if not found.notify(body=message["text"], title=f"tuner {message['experiment']}"):
            raise OSError("apprise could not deliver it")

    return deliver
