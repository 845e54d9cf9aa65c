"""docs/your_training.md is true: its files are complete, and its commands run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pages import Page

from tuner.results.results import Results

PAGE = Page("docs/your_training.md")
FILES = PAGE.files
LIMIT_S = 600
EXAMPLES = {  # file -> what it needs
    "hf_trainer.yaml": ("transformers", "accelerate"),
    "lightning_digits.yaml": ("lightning",),
    "xgboost_digits.py": ("xgboost",),
}


@pytest.fixture
def folder(tmp_path):
    PAGE.write_files(tmp_path)
    return tmp_path


def run(command: str, folder: Path) -> None:
    bin_folder = str(Path(sys.executable).parent)
    kept = {k: v for k, v in os.environ.items() if k != "TUNER_STORAGE"}
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**kept, "PATH": f"{bin_folder}{os.pathsep}{kept['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.docs
def test_every_command_works(folder: Path) -> None:
    for command in PAGE.commands:
        run(command, folder)
    assert (folder / "best_mlp" / "checkpoint" / "model.joblib").is_file()
    assert Results(folder / "results" / "sklearn_digits").counts["stopped"] > 0


@pytest.mark.docs
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_stopped_early_and_keeps_checkpoints(name: str, folder: Path) -> None:
    for package in EXAMPLES[name]:
        if find_spec(package) is None:
            pytest.skip(f"no test of it: pip install {package}")
    assert f"`tuner run {name}`" in PAGE.text
    run(f"tuner run {name}", folder)
    results = Results(folder / "results" / name.partition(".")[0])
    assert results.counts["stopped"] > 0
    assert results.counts["failed"] == 0
    assert all(trial.checkpoints for trial in results.trials.values())


@pytest.mark.docs
def test_a_trials_own_files_are_where_they_are_said_to_be(
    searched, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    torch.save(torch.ones(3), folder / "data.pt")
    results = searched(
        trainable="in_its_folder:train",
        search={"space": {"lr": "uniform(0, 1)"}},
        objective={"metric": "loss"},
        scheduler="none",
        num_samples=1,
    )
    assert (results.folder / "trials/00000/files/losses.txt").read_text().count("\n") == 3


@pytest.mark.parametrize(
    "name", [n for n in FILES if n.startswith(("hf", "lightning", "sklearn", "xgb"))]
)
def test_each_example_has_at_most_30_lines(name: str) -> None:
    assert len(FILES[name].splitlines()) <= 30
