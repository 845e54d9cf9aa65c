"""Every command that a page of the documentation shows runs, one after the other."""

import os
import runpy
import subprocess
import sys

import photos
import pytest
from pages import IN_ONE_PROCESS, ROOT, Page, with_options

from tuner.experiment.results.results import Results

pytestmark = pytest.mark.docs


@pytest.fixture
def here(tmp_path, monkeypatch, import_path):
    """A working directory whose storage, data and import path are the test's alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    return tmp_path


def run_page(name, folder):
    """Run the commands of a page but for downloads; none of them may fail."""
    page = Page(f"docs/{name}.md")
    page.write_files(folder)
    for line in page.commands:
        if not line.startswith("tuner weights fetch"):
            page.run_command(with_options(line, IN_ONE_PROCESS))


def test_data_page_commands_run(ray_here, here):
    photos.write(here / "photos", each=40)
    photos.write(here / "new_photos", each=4, seed=1000)
    run_page("data", here)
    runpy.run_path("label_photos.py")


def test_models_page_commands_run(ray_here, here):
    run_page("models", here)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{here}"}
    command = [sys.executable, "use_it.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.modules.pop("my_net", None)


def test_moving_page_commands_run(ray_here, here):
    run_page("moving", here)
    for name in ("from_ray", "from_optuna"):
        assert len(Results(here / "results" / name).trials) == 12
    runpy.run_path("optuna_script.py", run_name="__main__")


def test_training_page_commands_run(ray_here, here):
    run_page("training", here)
    report = Results(here / "results/recipe").get_best_trial().results[-1].metrics
    assert 0 < report["val_macro_f1"] <= 1
    assert "val_balanced_accuracy" not in report
    for log in sorted((here / "results/further/trials").glob("*/log.txt")):
        started = f"started from {here / 'source_model'}; new: nothing\n"
        assert log.read_text().startswith(started)


def test_notify_page_commands_run(here, monkeypatch):
    monkeypatch.setenv("USER", "me")
    monkeypatch.setenv("SLACK_HOOK", "x")
    run_page("notify", here)  # where nobody listens: a warning
    assert Results(here / "results/noted").status == "completed"


def test_queue_page_commands_run(here):
    run_page("queue", here)
