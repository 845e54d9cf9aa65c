"""docs/extending.md is true: its searcher can be built, its command works, its paths are there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from commands import call

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, code in re.findall(r"^```python\n(?=# (\S+)\n)(.*?)^```$", TEXT, re.M | re.S):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    return tmp_path


def test_every_command_works(here: Path) -> None:
    lines = re.findall(r"^\$ tuner (.*)$", TEXT, re.M)
    assert lines
    for line in lines:
        done = call(*shlex.split(line))
        assert not done.exception, done.output
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
    for path in re.findall(r"`(tuner/[\w/]+\.py)`", TEXT):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([\w./]+)(?:#[\w-]+)?\)", TEXT):
        assert (ROOT / "docs" / path).exists(), path
