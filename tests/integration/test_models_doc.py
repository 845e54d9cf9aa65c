"""docs/models.md is true: its commands run, and what it shows is what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call
from pages import ROOT, Page

from tuner.spec.code import LIBRARIES
from tuner.vision.catalog import MODELS
from tuner.vision.settings import ClassifierSettings

PAGE = Page("docs/models.md")
TEXT = PAGE.text


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files that the page shows."""
    PAGE.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    yield tmp_path
    sys.modules.pop("my_net", None)


@pytest.mark.docs
def test_page_commands_run(ray_here: None, written: Path) -> None:
    PAGE.run_commands()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{written}"}
    done = subprocess.run(
        [sys.executable, "use_it.py"], cwd=written, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_page_summary_equals_output(written: Path) -> None:
    done = call("validate", "my.yaml", "--summary")
    (shown,) = PAGE.blocks("text")
    assert shown in done.stdout


def test_page_names_exist_in_code() -> None:
    rows = {row.partition(" | ")[0] for row in TEXT.splitlines() if row.startswith("| `")}
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    elsewhere = {"my_module:MyNet", "torchvision:resnet50", "timm:NAME"}
    assert named - {"training.model"} == {*MODELS, *elsewhere}
    assert all(any(name.startswith(f"{library}:") for name in elsewhere) for library in LIBRARIES)
    settings = set(re.findall(r"training\.(\w+)", TEXT)) - {"md"}
    assert settings <= {*ClassifierSettings.model_fields}
