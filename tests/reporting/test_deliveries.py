"""What delivers a message: a real command, and apprise. Of a POST, test_notifier knows."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from webhook import Server

from tuner.errors import UsageError
from tuner.reporting import deliveries as module
from tuner.reporting.deliveries import END, Message, Outbox, RefusedError, deliveries

MESSAGE: Message = {"experiment": "digits", "text": "digits: completed"}


def deliver(target: str) -> None:
    [delivery] = deliveries((target,)).values()
    delivery(MESSAGE)


def test_a_command_gets_the_message_on_its_stdin(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    deliver(f"exec:cat > {told}; echo not-for-stdout")
    assert json.loads(told.read_text()) == MESSAGE


def test_a_command_that_fails_or_hangs_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match=r"^exit code 7: why$"):
        deliver("exec:echo not this; echo why >&2; exit 7")
    monkeypatch.setattr(module, "_ANSWER_S", 0.1)
    with pytest.raises(RefusedError, match=r"^no end in 0\.1 s$"):
        deliver("exec:sleep 60 & wait")


def test_other_urls_are_apprises() -> None:
    pytest.importorskip("apprise", reason="no test of apprise: pip install 'tuner[notify]'")
    server = Server()
    try:
        deliver(server.url.replace("http://", "json://"))
        message = server.message()
    finally:
        server.close()
    assert (message["title"], message["message"]) == ("tuner digits", "digits: completed")
    with pytest.raises(UsageError, match=r"^notify: apprise does not know nonsense://\*\*\*; see"):
        deliveries(("nonsense://x",))


def test_url_of_a_variable_is_posted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setenv("WEBHOOK_URL", server.url)
    try:
        deliver("${WEBHOOK_URL}")
        assert server.message() == MESSAGE
    finally:
        server.close()


def test_url_of_a_variable_that_needs_apprise_names_the_package_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEBHOOK_URL", "slack://s3cret")
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(
        UsageError, match=r"^notify: \$\{WEBHOOK_URL\} needs a package: pip install"
    ):
        deliver("${WEBHOOK_URL}")


def test_the_hidden_form_of_a_target_is_passed_over() -> None:
    assert deliveries(("https://hooks.slack.com/***",)) == {}


PATIENCE_S = 20


def test_one_slow_target_holds_up_no_other() -> None:
    release, got = threading.Event(), Queue[Any]()
    slow = Outbox("slow", lambda message: release.wait(PATIENCE_S))
    fast = Outbox("fast", got.put)
    for box in (slow, fast):
        box.put(END, {"event": END})
    assert got.get(timeout=PATIENCE_S) == {"event": END}
    release.set()
    for box in (slow, fast):
        box.end()
        box.join(time.monotonic() + PATIENCE_S)


def test_what_is_refused_is_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    tries = []

    def refuse(message: Any) -> None:
        tries.append(message)
        raise RefusedError("no")

    box = Outbox("x", refuse)
    box.put(END, {"event": END})
    box.end()
    box.join(time.monotonic() + PATIENCE_S)
    assert (len(tries), caplog.messages) == (1, ["cannot notify x: no"])
