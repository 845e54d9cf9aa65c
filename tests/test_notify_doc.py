"""docs/notify.md is true: its payload has the keys that are sent, its figures are the code's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import Page

from tuner.experiment.history import History
from tuner.reporting import notifier
from tuner.spec.experiment import ExperimentSpec, build_spec

PAGE = Page("docs/notify.md")
TEXT = " ".join(PAGE.text.split())


def test_page_payload_equals_message() -> None:
    shown = json.loads(PAGE.blocks("json")[0])
    spec = build_spec({"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 2})
    history = History(spec.objective)
    config = {"lr": 0.5}
    for event in (
        {"event": "trial_started", "time": 1.0, "trial_id": "00000", "config": config},
        {
            "event": "result",
            "time": 2.0,
            "trial_id": "00000",
            "epoch": 1,
            "metrics": {"val_loss": 0.5},
        },
    ):
        history.apply(event)
    sent = notifier.message_of(notifier.END, spec, history, 3.0)
    assert list(sent) == list(shown)
    assert list(sent["best"]) == list(shown["best"])


def test_page_numbers_equal_code() -> None:
    assert f"at most every {notifier.BEST_EVERY_S / 60:g} minutes" in TEXT
    assert f"for at most {notifier.FLUSH_S:g} seconds" in TEXT
    assert f"within {notifier.ANSWER_S:g} seconds" in TEXT
    assert len(notifier.PAUSES_S) == 2
    assert "is tried twice more" in TEXT


def test_page_spec_is_valid(tmp_path: Path) -> None:
    spec = ExperimentSpec.from_text(PAGE.files["noted.yaml"])
    assert json.loads(spec.to_json())["notify"] == [
        "https://hooks.slack.com/services/${SLACK_HOOK}"
    ]


@pytest.mark.docs
def test_page_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("USER", "me")
    monkeypatch.setenv("SLACK_HOOK", "x")
    PAGE.write_files(tmp_path)
    assert all(done.return_value == 0 for done in PAGE.run_commands())
    [message] = (tmp_path / "notes.jsonl").read_text().splitlines() or [""]
    assert json.loads(message)["status"] == "completed"
