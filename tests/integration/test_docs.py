"""Every command that a page of the documentation shows runs, one after the other."""

import runpy
import sys

import photos
import pytest
from pages import IN_ONE_PROCESS, Page, run_in_shell, with_options

from tuner.experiment.results.results import Results

pytestmark = pytest.mark.docs


def run_page(name, folder):
    """Run the commands of a page but for downloads; none of them may fail."""
    page = Page(f"docs/{name}.md")
    page.write_files(folder)
    for line in page.commands:
        if not line.startswith("tuner weights fetch"):
            page.run_command(with_options(line, IN_ONE_PROCESS))


def test_data_page_commands_run(ray_here, working_dir):
    photos.write(working_dir / "photos", each=40)
    photos.write(working_dir / "new_photos", each=4, seed=1000)
    run_page("data", working_dir)
    runpy.run_path("label_photos.py")


def test_models_page_commands_run(ray_here, working_dir):
    run_page("models", working_dir)
    run_in_shell("python use_it.py", working_dir)
    sys.modules.pop("my_net", None)


def test_moving_page_commands_run(ray_here, working_dir):
    run_page("moving", working_dir)
    for name in ("from_ray", "from_optuna"):
        assert len(Results(working_dir / "results" / name).trials) == 12
    runpy.run_path("optuna_script.py", run_name="__main__")


def test_training_page_commands_run(ray_here, working_dir):
    run_page("training", working_dir)
    report = (
        Results(working_dir / "results/recipe").get_best_trial().results[-1].metrics
    )
    assert 0 < report["val_macro_f1"] <= 1
    assert "val_balanced_accuracy" not in report
    for log in sorted((working_dir / "results/further/trials").glob("*/log.txt")):
        started = f"started from {working_dir / 'source_model'}; new: nothing\n"
        assert log.read_text().startswith(started)


def test_notify_page_commands_run(working_dir, monkeypatch):
    monkeypatch.setenv("USER", "me")
    monkeypatch.setenv("SLACK_HOOK", "x")
    run_page("notify", working_dir)  # where nobody listens: a warning
    assert Results(working_dir / "results/noted").status == "completed"


def test_queue_page_commands_run(working_dir):
    run_page("queue", working_dir)
