"""What a search sends to a real HTTP server, a real command and apprise; no Ray."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tuner.errors import UsageError
from tuner.record.events import (
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
)
from tuner.record.history import History
from tuner.reporting import notifier as module
from tuner.reporting.notifier import BEST, END, FAILURE, Notifier, Outbox, RefusedError, deliveries
from tuner.spec.experiment import ExperimentSpec, build_spec

PATIENCE_S = 20


class Server:
    """Takes what is posted, with answers that a test decides: 200 unless there are others."""

    def __init__(self) -> None:
        self.got: Queue[Any] = Queue()
        self.answers: list[int] = []
        self.held = threading.Event()
        self.held.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.held.wait(PATIENCE_S)
                code = outer.answers.pop(0) if outer.answers else 200
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                outer.got.put((self.headers["Content-Type"], json.loads(body)))

            do_GET = do_POST

            def log_message(self, *arguments: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/s3cret"
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    def message(self) -> Any:
        kind, message = self.got.get(timeout=PATIENCE_S)
        assert kind == "application/json"
        return message

    def close(self) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


class Searched:
    """A search that is played to a Notifier, as a driver notifies its observers."""

    def __init__(self, tmp_path: Path, *notify: str, best_every_s: float = 0.0) -> None:
        search = {"space": {"lr": "uniform(0, 1)"}}
        self.spec: ExperimentSpec = build_spec(
            {
                "name": "digits",
                "storage": str(tmp_path),
                "search": search,
                "num_samples": 4,
                "notify": list(notify),
            }
        )
        self.history = History(self.spec.objective)
        self.now = 1000.0
        self.notifier = Notifier(self.spec, self.history, best_every_s=best_every_s)
        self.event(EXPERIMENT_STARTED, resumed=False)

    def event(self, event: str, **fields: Any) -> None:
        self.now += 1
        record = {"event": event, "time": self.now, **fields}
        self.history.apply(record)
        self.notifier(record)

    def start(self, trial_id: str) -> None:
        self.event(TRIAL_STARTED, trial_id=trial_id, config={"lr": 0.5})

    def report(self, trial_id: str, epoch: int, loss: float) -> None:
        self.event(RESULT, trial_id=trial_id, epoch=epoch, metrics={"val_loss": loss})

    def end(self, trial_id: str, status: str, **fields: Any) -> None:
        self.event(TRIAL_ENDED, trial_id=trial_id, status=status, **fields)


ERROR = {"kind": "exception", "message": "ValueError: no\nsuch"}


def test_the_end_the_first_failure_and_a_new_best_are_posted(
    server: Server, tmp_path: Path
) -> None:
    search = Searched(tmp_path, server.url)
    search.start("00000")
    search.report("00000", 1, 0.5)
    best = server.message()
    assert (best["event"], best["text"]) == (
        BEST,
        "digits: best val_loss 0.5 (trial 00000, epoch 1)",
    )
    assert best["best"] == {
        "trial_id": "00000",
        "epoch": 1,
        "metric": "val_loss",
        "value": 0.5,
        "config": {"lr": 0.5},
    }
    search.report("00000", 2, 0.6)  # no new best
    search.start("00001")
    search.end("00001", "failed", error=ERROR)
    failure = server.message()
    assert failure["event"] == FAILURE
    assert failure["failure"] == {
        "trial_id": "00001",
        "kind": "exception",
        "message": "ValueError: no such",
    }
    assert failure["text"] == (
        "digits: trial 00001 failed, the first to do so: exception: ValueError: no such"
    )
    search.start("00002")
    search.end("00002", "failed", error=ERROR)  # not the first
    search.end("00000", "completed")
    search.event(EXPERIMENT_ENDED, status="completed", reason="time_budget")
    search.notifier.close()
    end = server.message()
    assert {key: end[key] for key in ("event", "experiment", "location", "time", "status")} == {
        "event": END,
        "experiment": "digits",
        "location": str(tmp_path / "digits"),
        "time": search.now,
        "status": "out of time",
    }
    assert end["counts"] == {"completed": 1, "failed": 2}
    assert end["text"] == (
        "digits: out of time after 9s; 1 completed, 2 failed; "
        "best val_loss 0.5 (trial 00000, epoch 1)"
    )
    assert server.got.empty()


def test_of_bests_that_come_soon_after_each_other_the_last_one_is_sent(
    server: Server, tmp_path: Path
) -> None:
    search = Searched(tmp_path, server.url, best_every_s=0.3)
    search.start("00000")
    for epoch in range(1, 6):
        search.report("00000", epoch, 1 / epoch)
    assert server.message()["best"]["epoch"] == 5
    search.report("00000", 6, 0.01)
    search.event(EXPERIMENT_ENDED, status="completed")
    search.notifier.close()
    assert server.message()["event"] == END  # which tells the best as well
    assert server.got.empty()


def test_what_runs_before_have_shown_is_no_news(server: Server, tmp_path: Path) -> None:
    search = Searched(tmp_path, server.url)
    for event, fields in (
        (TRIAL_STARTED, {"config": {"lr": 0.5}}),
        (RESULT, {"epoch": 1, "metrics": {"val_loss": 0.1}}),
        (TRIAL_ENDED, {"status": "failed", "error": ERROR}),
        (TRIAL_STARTED, {"config": {"lr": 0.5}}),
    ):  # as a resume restores them: observers do not see them
        search.history.apply({"event": event, "time": 1.0, "trial_id": "00000", **fields})
    search.start("00001")
    search.report("00001", 1, 0.2)
    search.event(EXPERIMENT_ENDED, status="interrupted")
    search.notifier.close()
    assert server.message()["event"] == END
    assert server.got.empty()


def test_a_target_that_fails_is_tried_again_and_never_waited_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSES_S", (0.0, 0.0))
    server.answers = [500, 429, 200]
    server.held.clear()
    search = Searched(tmp_path, server.url)
    search.start("00000")
    search.end("00000", "failed", error=ERROR)  # returns though the server does not answer
    server.held.set()
    assert [server.message()["event"] for _ in range(3)] == [FAILURE] * 3
    search.notifier.close()


def test_what_cannot_be_delivered_is_one_warning_without_the_secret(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [403, 302]
    search = Searched(tmp_path, server.url)
    search.start("00000")
    search.end("00000", "failed", error=ERROR)
    server.message()
    search.event(EXPERIMENT_ENDED, status="failed")
    search.notifier.close()
    assert server.message()["event"] == END  # tried nevertheless, and not once more
    [warning] = caplog.messages
    assert warning.startswith("cannot notify http://127.0.0.1:")
    assert warning.endswith("/***: it answers 403 Forbidden")
    assert server.got.empty()


def test_nobody_there_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSES_S", ())
    search = Searched(tmp_path, "http://127.0.0.1:9/s3cret")
    search.event(EXPERIMENT_ENDED, status="completed")
    search.notifier.close()
    [warning] = caplog.messages
    assert warning.startswith("cannot notify http://127.0.0.1:9/***: ")
    assert "refused" in warning


def test_the_end_waits_a_little_and_no_longer(
    server: Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.05)
    server.held.clear()
    search = Searched(tmp_path, server.url)
    search.event(EXPERIMENT_ENDED, status="interrupted")
    search.notifier.close()
    assert caplog.messages[0].endswith("/***: no answer in 0.05 s")
    search.notifier.close()  # once more does nothing
    assert len(caplog.messages) == 1


def test_an_end_that_the_journal_could_not_take_is_told_as_a_failure(
    server: Server, tmp_path: Path
) -> None:
    search = Searched(tmp_path, server.url)
    search.notifier.close()
    end = server.message()
    assert (end["event"], end["status"]) == (END, "failed")


def test_a_command_gets_the_message_on_its_stdin(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    search = Searched(tmp_path, f"exec:cat > {told}; echo not-for-stdout")
    search.event(EXPERIMENT_ENDED, status="completed")
    search.notifier.close()
    assert json.loads(told.read_text())["status"] == "completed"


def test_a_command_that_fails_or_hangs_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.1)
    search = Searched(tmp_path, "exec:echo why >&2; exit 7", "exec:sleep 60 & wait")
    search.event(EXPERIMENT_ENDED, status="completed")
    search.notifier.close()
    assert sorted(caplog.messages) == [
        "cannot notify exec:echo why >&2; exit 7: exit code 7: why",
        "cannot notify exec:sleep 60 & wait: no end in 0.1 s",
    ]


def test_other_urls_are_apprises(tmp_path: Path, server: Server) -> None:
    pytest.importorskip("apprise", reason="no test of apprise: pip install 'tuner[notify]'")
    search = Searched(tmp_path, server.url.replace("http://", "json://"))
    search.event(EXPERIMENT_ENDED, status="completed")
    search.notifier.close()
    message = server.message()
    assert (message["title"], message["message"]) == (
        "tuner digits",
        "digits: completed after 1s; no trials; no trial has reported a value",
    )
    with pytest.raises(UsageError, match=r"^notify: apprise does not know nonsense://\*\*\*; see"):
        deliveries(("nonsense://x",))


def test_the_hidden_form_of_a_target_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Searched(tmp_path, "https://hooks.slack.com/***").notifier.close()
    [warning] = caplog.messages
    assert warning.startswith("https://hooks.slack.com/*** is not notified")


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


def test_nothing_is_made_for_nobody(tmp_path: Path) -> None:
    before = threading.active_count()
    search = Searched(tmp_path)
    search.event(EXPERIMENT_ENDED, status="completed")
    assert threading.active_count() == before
    search.notifier.close()
