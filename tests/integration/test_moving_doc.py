"""docs/moving.md is true: its scripts run before and after, and it names what there is."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from pages import Page

from tuner.cli.main import cli
from tuner.experiment.results.results import Results
from tuner.reporting.reference import part
from tuner.spec.space.parsing import CALLS

PAGE = Page("docs/moving.md")
HERE = re.findall(r"^\|[^|]*\| (.*) \|$", PAGE.text, re.MULTILINE)  # the right columns


@pytest.mark.docs
def test_page_commands_run(ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    PAGE.write_files(tmp_path)
    PAGE.run_commands()
    for name in ("from_ray", "from_optuna"):
        assert len(Results(tmp_path / "results" / name).trials) == 12
    runpy.run_path("optuna_script.py", run_name="__main__")


def test_page_functions_are_equal_before_and_after() -> None:
    loop = "    for epoch in range(1, 10):\n        loss = "
    assert sum(text.count(loop) for text in PAGE.files.values()) == 3
    assert "from ray_script import train" in PAGE.files["from_ray.py"]


def test_page_names_exist_in_code() -> None:
    text = "\n".join(HERE)
    keys = set(re.findall(r"`((?:search|scheduler|stop|resources|objective)\.\w+)", text))
    assert len(keys) > 8
    for key in keys:
        assert part(key)
    options = {
        option for command in cli.commands.values() for one in command.params for option in one.opts
    }
    assert set(re.findall(r"--[a-z][a-z-]+", text)) <= options
    assert set(re.findall(r"`(\w+)\(a, b", text)) <= set(CALLS)
