"""docs/control.md is true: every command that it shows asks a search that runs for what it says."""

import json

import pytest
from pages import Page
from synthetic import Writer, make_folder

from tuner.cli import control
from tuner.experiment.control import CONTROLS, requested
from tuner.experiment.folder import ExperimentFolder

PAGE = Page("docs/control.md")


@pytest.fixture
def first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setattr(control, "_answer", lambda *arguments: None)
    space = {"lr": "loguniform(0.0001, 1)", "batch_size": "choice([32, 64])"}
    search = {"strategy": "random", "space": space}
    writer = Writer(make_folder(tmp_path / "results" / "first", search=search))
    writer.trial(3, [0.5], end=None, config={"lr": 0.5, "batch_size": 32})
    yield ExperimentFolder(writer.folder)
    writer.journal.close()


def test_control_page_commands_request_every_verb(first):
    for done in PAGE.run_commands():
        assert "asked; the driver of first has not answered yet" in done.stdout
    asked = [one.control.model_dump(mode="json") for one in requested(first)]
    assert {one["verb"] for one in asked} == set(CONTROLS)
    assert json.dumps(asked[-2]["config"]) == '{"lr": 0.02, "batch_size": 32}'
    assert asked[4]["time_budget_s"] == 7200
