"""Delivers messages to a target, in a thread each: a POST, a command, or apprise."""

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
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from tuner.errors import UsageError, reason_of
from tuner.spec.notify import COMMAND, filled, hidden, is_hidden, is_web
from tuner.wording import install, shorten

Message = dict[str, Any]  # plain values; docs/notify.md has an example
Deliver = Callable[[Message], object]

_ANSWER_S = 10.0  # for a target to take a message
_LONGEST = 500  # characters of what a command says


class RefusedError(Exception):
    """A target has refused a message, and would refuse it again."""


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
    try:
        import apprise
    except ImportError:
        raise UsageError(f"notify: {name} needs a package: {install('notify')}") from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its messages name the URL
    found = apprise.Apprise.instantiate(url)
    if found is None:
        raise UsageError(f"notify: apprise does not know {name}; see `apprise --details`")

    def deliver(message: Message) -> None:
        if not found.notify(body=message["text"], title=f"tuner {message['experiment']}"):
            raise OSError("apprise could not deliver it")

    return deliver


_log = logging.getLogger(__name__)

# The kinds of messages
END, FAILURE, BEST = "end", "failure", "best"

BEST_EVERY_S = 300.0  # at most, and not before the search has run so long
FLUSH_S = 5.0  # at the end, for what still waits
_PAUSES_S = (1.0, 4.0)  # before it is tried again


class Outbox:
    """Delivers the messages to one target, in a thread of its own.

    name: the target's, to show. A message waits in a slot of its kind, where a newer one takes its
    place: what waits is bounded, and the last one wins. What cannot be delivered is told in one
    warning.
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


def flush(outboxes: Collection[Outbox]) -> None:
    """Deliver what still waits, for at most FLUSH_S seconds; their threads then end."""
    deadline = time.monotonic() + FLUSH_S
    for outbox in outboxes:
        outbox.end()
    for outbox in outboxes:
        outbox.join(deadline)
