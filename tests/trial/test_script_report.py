"""`tuner.report`, by itself; tests/trial/test_script.py has it beside a worker."""

import numpy as np
import pytest
import torch
from fresh import ran
from ray import tune

import tuner
from tuner.places import TRIAL_DIR
from tuner.trial.script_report import REPORTS


def test_report_outside_of_a_search_does_nothing(monkeypatch):
    monkeypatch.delenv(REPORTS, raising=False)
    monkeypatch.delenv(TRIAL_DIR, raising=False)
    assert tuner.report({"val/loss": 0.3}, epoch=1) is None


def test_report_imports_nothing_heavy():
    loaded = ran("import tuner; tuner.report(loss=1)").modules
    assert not loaded & {"ray", "torch", "numpy", "pydantic"}


def test_report_on_a_rank_other_than_0_does_nothing(monkeypatch):
    monkeypatch.setenv(REPORTS, "/nowhere")
    monkeypatch.setenv("RANK", "1")
    tuner.report(loss=1)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(FileNotFoundError):
        tuner.report(loss=1)


def test_report_in_a_function_that_a_search_trains_is_rays(monkeypatch, tmp_path):
    reported = []
    monkeypatch.delenv(REPORTS, raising=False)
    monkeypatch.setenv(TRIAL_DIR, str(tmp_path))
    monkeypatch.setattr(tune, "report", reported.append)
    tuner.report({"a": torch.tensor(0.5)}, b=np.float32(2), c="text", d=torch.ones(2))
    assert reported == [{"a": 0.5, "b": 2.0, "c": "text", "d": "tensor([1., 1.])"}]
