"""What a search sends to a real HTTP server; no Ray."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from webhook import Server

from tuner.experiment.events import (
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
)
from tuner.experiment.history import History
from tuner.reporting import deliveries
from tuner.reporting.deliveries import BEST, END, FAILURE
from tuner.reporting.notifier import Notifier
from tuner.spec.experiment import ExperimentSpec, build_spec


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
    monkeypatch.setattr(deliveries, "_PAUSES_S", (0.0, 0.0))
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
    monkeypatch.setattr(deliveries, "_PAUSES_S", ())
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
    monkeypatch.setattr(deliveries, "FLUSH_S", 0.05)
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


def test_the_hidden_form_of_a_target_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Searched(tmp_path, "https://hooks.slack.com/***").notifier.close()
    [warning] = caplog.messages
    assert warning.startswith("https://hooks.slack.com/*** is not notified")


def test_nothing_is_made_for_nobody(tmp_path: Path) -> None:
    before = threading.active_count()
    search = Searched(tmp_path)
    search.event(EXPERIMENT_ENDED, status="completed")
    assert threading.active_count() == before
    search.notifier.close()
