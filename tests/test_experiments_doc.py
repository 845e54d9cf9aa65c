"""docs/experiments.md is true: its commands work, and what they show is what comes."""

import re
import shlex
from pathlib import Path

import pytest
from commands import call
from synthetic import Writer, make_folder

TEXT = (Path(__file__).parents[1] / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    for name in ("first", "wide"):
        spec = {"trainable": "commands:a_function", "training": {}, "num_samples": 3}
        writer = Writer(
            make_folder(tmp_path / "results" / name, metric="val_loss", mode="min", **spec)
        )
        for number in range(3):
            values = [{"val_loss": 0.5 - 0.1 * number}, {"val_loss": 0.3 - 0.1 * number}]
            trial_id = writer.trial(number, values, config={"lr": 10.0**-number})
            writer.checkpoint(trial_id, 2, b"x" * 1000)
        writer.end()
    return tmp_path / "results"


def test_page_commands_run(storage):
    (block,) = re.findall(r"^```console\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line.removeprefix("$ tuner "), comments=True)
        done = call(*words, *(["--dry-run"] if words[0] == "run" else []))
        assert not done.exception, f"{line}\n{done.output}\n{done.exception}"
        assert done.return_value == 0, line
        assert done.stdout, line
    assert [folder.name for folder in storage.iterdir()] == ["first"]
    assert len(list(storage.rglob("state.pt"))) == 2


def test_page_trial_equals_output(storage):
    shown = next(t for t in re.findall(r"^```text\n(.*?)^```$", TEXT, re.M | re.S))
    assert call("trials", "first", "--trial", "2").stdout == shown


def test_page_lists_every_name_of_ls(storage):
    error = str(call("ls", "--sort", "nothing").exception)
    names = set(error.partition("available: ")[2].split(", "))
    section = TEXT.partition("## Finding one")[2].partition("## ")[0]
    assert names - {"val_loss"} <= set(re.findall(r"`(\w+)`", section))
