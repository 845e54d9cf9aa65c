from pathlib import Path

from tuner.trial.directories import start_dir, trial_dir


def test_trial_dirs_default_to_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert start_dir() == trial_dir() == tmp_path
    monkeypatch.setenv("TUNER_START_DIR", "/start")
    monkeypatch.setenv("TUNER_TRIAL_DIR", str(tmp_path / "trial"))
    assert start_dir() == Path("/start")
    assert trial_dir() == tmp_path / "trial"
    assert trial_dir().is_dir()
