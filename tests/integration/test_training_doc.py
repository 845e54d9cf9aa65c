"""docs/training.md is true: its commands run, and it names the settings that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import Page

from tuner.experiment.results.results import Results
from tuner.spec.sections import Resources
from tuner.vision.catalog import METRICS, MODELS
from tuner.vision.pipeline import PARTS_PER_STAGE
from tuner.vision.recipe import OPTIONAL_METRICS, STEP_FACTOR, STEPS, RecipeSettings
from tuner.vision.settings import ClassifierSettings

PAGE = Page("docs/training.md")
TEXT = PAGE.text


@pytest.mark.docs
def test_page_commands_run(ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    PAGE.write_files(tmp_path)
    PAGE.run_commands()
    recipe = Results(tmp_path / "results" / "recipe")
    report = recipe.get_best_trial().results[-1].metrics
    assert 0 < report["val_macro_f1"] <= 1
    assert "val_balanced_accuracy" not in report
    for log in sorted((tmp_path / "results" / "further" / "trials").glob("*/log.txt")):
        assert log.read_text().startswith("started from source_model; new: nothing\n")


def test_page_settings_exist_in_code() -> None:
    named = {name for name in re.findall(r"`(?:training|resources)\.(\w+)", TEXT) if name != "*"}
    assert named <= {*ClassifierSettings.model_fields, *Resources.model_fields}
    assert named >= {*Resources.model_fields, *RecipeSettings.model_fields}
    assert all(f"`{name}`" in TEXT for name in OPTIONAL_METRICS)
    assert set(re.findall(r"`(micro_\w+)`", TEXT)) <= set(METRICS)
    split = next(line for line in TEXT.splitlines() if "can be split, such as" in line)
    assert set(re.findall(r"`(\w+)`", split)) <= {n for n, m in MODELS.items() if m.layers > 1}


def test_page_numbers_equal_code() -> None:
    assert f"({PARTS_PER_STAGE} for each stage)" in TEXT
    assert f"for `step`: {STEP_FACTOR} unless set" in TEXT
    assert STEPS == (1 / 2, 3 / 4)
    assert "half and three quarters of the epochs" in TEXT
