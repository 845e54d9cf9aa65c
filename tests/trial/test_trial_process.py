"""What a trial's own code finds in its process, and what it leaves there."""

import os
from pathlib import Path

from test_worker import Counter, context

from tuner.trial.context import Assignment
from tuner.trial.trial_process import TrialProcess


class Stays(Counter):
    stays_in_start_dir = True


def test_a_trial_works_in_its_folder_and_the_next_in_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path))
    for trial_id in ("00000", "00001"):
        assert process.begin(Assignment(trial_id, {})).__name__ == "Counter"
        assert Path.cwd() == tmp_path / "trials" / trial_id / "files"
        os.environ["LEFT_BY_A_TRIAL"] = trial_id
        assert process.end() is None
        assert Path.cwd() == tmp_path
        assert "LEFT_BY_A_TRIAL" not in os.environ
    assert not list(tmp_path.glob("trials/*/files"))


def test_a_trainable_may_stay_where_the_search_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path, trainable="test_trial_process:Stays"))
    process.begin(Assignment("00000", {}))
    assert Path.cwd() == tmp_path
    process.end()


def test_a_module_is_imported_where_the_search_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reads_at_import.py").write_text(
        "TEXT = open('data.txt').read()\ndef train(config): pass\n"
    )
    (tmp_path / "data.txt").write_text("data")
    process = TrialProcess(context(tmp_path, trainable="reads_at_import:train"))
    process.begin(Assignment("00000", {}))
    process.end()
