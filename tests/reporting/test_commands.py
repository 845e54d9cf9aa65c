"""Commands and calls that go on with an experiment."""

from pathlib import Path

import pytest

from tuner.reporting.commands import format_experiment_name, format_resume_command


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("results/digits", "digits"),
        ("results/my digits", "'my digits'"),
        ("results/-digits", "results/-digits"),  # not an option
        ("elsewhere/digits", "elsewhere/digits"),
    ],
)
def test_experiment_outside_of_the_storage_is_named_by_its_path(
    tmp_path, monkeypatch, path, name
):
    monkeypatch.setenv("TUNER_STORAGE", "results")
    monkeypatch.chdir(tmp_path)
    assert format_experiment_name(Path(path)) == name


@pytest.mark.parametrize(
    ("trainable", "command"),
    [
        ("my:Net", "tuner resume elsewhere/digits --time-budget 60s"),
        ("elsewhere", "tuner.AskTell('elsewhere/digits', time_budget_s=63)"),
        (
            "__main__:f (by value)",
            "tuner.resume_experiment('elsewhere/digits', trainable=f)",
        ),
    ],
)
def test_resume_command_depends_on_the_trainable(
    tmp_path, monkeypatch, trainable, command
):
    monkeypatch.chdir(tmp_path)
    folder = Path("elsewhere/digits")
    assert (
        format_resume_command(folder, trainable, searched_s=2.5, more_s=60) == command
    )
