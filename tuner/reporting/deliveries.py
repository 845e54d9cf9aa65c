"""What delivers a message to a target: a POST, a command, or apprise."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from tuner.errors import UsageError
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
