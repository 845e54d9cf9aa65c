"""docs/queue.md is true: its figures are the code's, and its commands run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page

from tuner.experiment.remote import lease
from tuner.service.queue import runner, searches

PAGE = Page("docs/queue.md")
TEXT = " ".join(PAGE.text.split())


def test_page_numbers_equal_code() -> None:
    assert searches._TRIES == 3
    assert "up to three starts in all" in TEXT
    assert f"on another machine, after {lease.PATIENCE_S:g} s" in TEXT
    assert runner._PATIENCE_S == 60
    assert "the runner waits for it, for a minute" in TEXT


@pytest.mark.docs
def test_page_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    codes = [done.return_value for done in PAGE.run_commands()]
    assert codes == [0] * len(codes)
