"""The package of docs/extending.md, in processes of the command line and with a real search."""

import json

import pytest
from commands import tuner
from installed import install_shown
from pages import Page

pytestmark = pytest.mark.slow

SEARCH = (
    "--num-samples",
    "2",
    "--max-concurrent",
    "1",
    "scheduler.max_t=2",
    "--no-evaluate",
)
NAMED = ("--log", "lines", "--notify", "append://messages.txt")


def test_package_adds_tracker_notifier_figure_and_command(
    install, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    site = install_shown(Page("docs/extending.md"), install)
    assert "Packages:\n  worst of tuner-lab 1.0\n" in tuner("--help").stdout
    plan = json.loads(tuner("validate", "digits", *NAMED, "--json").stdout)
    assert plan["spec"]["log"] == ["lines"]

    done = tuner("run", "digits", "--name", "first", *SEARCH, *NAMED)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "first.txt").read_text().splitlines()
    assert len([line for line in log if "'val_loss'" in line]) == 4
    assert len([line for line in log if line.endswith((" completed", " stopped"))]) == 2
    [message] = (tmp_path / "messages.txt").read_text().splitlines()
    assert message.startswith("first: completed after ")
    spec = json.loads((tmp_path / "results/first/experiment.json").read_text())["spec"]
    assert (spec["log"], spec["notify"]) == (["lines"], ["append://***"])

    assert tuner("report", "first").returncode == 0
    page = (tmp_path / "results/first/report.html").read_text()
    assert 'data-figure="plugin-lr"' in page
    assert tuner("worst", "first").stdout.startswith("worst val_loss: ")

    site.rename(tmp_path / "removed")
    assert tuner("show", "first").returncode == 0
    missing = tuner("worst", "first")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("error: unknown command 'worst'")
    refused = tuner("resume", "first", "--add-samples", "1")
    assert refused.returncode == 2
    assert "log: unknown log 'lines'; available: mlflow, wandb" in refused.stderr
    resumed = tuner("resume", "first", "--add-samples", "1", "log=[]", "--no-evaluate")
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "first.txt").read_text().splitlines() == log
