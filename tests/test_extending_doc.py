"""docs/extending.md is true: its searcher can be built, its command works, its paths are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pages import ROOT, Page

PAGE = Page("docs/extending.md")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    PAGE.write_files(tmp_path)
    return tmp_path


def test_every_command_works(here: Path) -> None:
    for done in PAGE.run_commands():
        assert "my_searcher" in done.stdout


def test_its_searcher_suggests_configs(here: Path) -> None:
    from tuner.planning.resolve import resolve

    changes = ["search.first=0.8"]
    spec, _ = resolve("digits", changes, strategy="my_package.my_searcher")
    searcher = spec.search.build(0, objective=spec.objective, max_t=2, slots=1)
    first, second = (searcher.suggest(str(number)) for number in range(2))
    assert first.keys() == second.keys() == spec.search.space.keys()
    assert first["lr"] > second["lr"]


def test_what_it_names_is_there() -> None:
    for path in re.findall(r"`(tuner/[\w/]+\.py)`", PAGE.text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([\w./]+)(?:#[\w-]+)?\)", PAGE.text):
        assert (ROOT / "docs" / path).exists(), path
