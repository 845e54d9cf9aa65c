"""What the driver sends to the workers."""

import sys
from pathlib import Path

from test_worker import context

from tuner.trial.context import with_trial_seed


def test_the_users_modules_and_files_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["a"])
    context(tmp_path, sys_path=("a", "b")).prepare_process()
    assert (sys.path, Path.cwd()) == (["a", "b"], tmp_path)
    context(tmp_path, directory=str(tmp_path / "not here")).prepare_process()
    assert Path.cwd() == tmp_path


def test_a_trials_own_seed_takes_the_place_of_the_experiments():
    values = {"seed": 1, "epochs": 3}
    assert with_trial_seed(values, 7) == {"seed": 7, "epochs": 3}
    assert with_trial_seed(values, None) == values
    assert with_trial_seed(values, 0)["seed"] == 0
