"""docs/troubleshooting.md is true: its commands work, and it names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import Page
from synthetic import Writer, make_folder

from tuner.cli.main import cli
from tuner.errors import FAILURE_KINDS
from tuner.reporting.reference import part

PAGE = Page("docs/troubleshooting.md")


def test_page_commands_show_why_trial_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    writer = Writer(make_folder(tmp_path / "results" / "first"))
    writer.trial(0, [0.5, 0.6])
    writer.trial(2, [0.4], error=("oom", "CUDA out of memory"))
    writer.end()
    for done in PAGE.run_commands():
        assert "oom" in done.stdout, done.stdout


def test_page_has_row_for_every_failure_kind() -> None:
    kinds = re.findall(r"^\| `(\w+)` \|", PAGE.text, re.MULTILINE)
    assert sorted(kinds) == sorted(FAILURE_KINDS)


def test_page_keys_and_options_exist() -> None:
    keys = set(re.findall(r"`((?:training|scheduler|timeouts|objective)\.\w+)", PAGE.text))
    assert len(keys) > 4
    for key in keys:
        assert part(key)
    options = {
        option for command in cli.commands.values() for one in command.params for option in one.opts
    }
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE.text)) <= options
