"""MLflow, with its own files; integration/test_tracking.py has Weights & Biases."""

import logging
import os

import pytest
from synthetic import OWNER, START, Writer

from tuner.experiment.history import fold
from tuner.reporting.trackers import Tracker
from tuner.spec.experiment import build_spec

CONFIG = {"lr": 0.25, "layers": [1, 2], "optimizer": {"name": "sgd"}}


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    search = {"space": {"lr": "uniform(0, 1)"}}
    fields = {"name": "digits", "storage": str(tmp_path), "search": search, "num_samples": 4}
    spec = build_spec({**fields, "log": "mlflow"})
    spec.folder.mkdir()
    return spec


@pytest.fixture
def mlflow(spec):
    """A client of the files that the tracker writes."""
    pytest.importorskip("mlflow", reason="no test of MLflow: pip install 'tuner[mlflow]'")
    from mlflow.tracking import MlflowClient

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # restored with the fixture of the spec
    client = MlflowClient(tracking_uri=(spec.folder.parent / "mlruns").as_uri())

    def runs():
        experiment = client.get_experiment_by_name("digits")
        records = client.search_runs([experiment.experiment_id])
        return {run.info.run_name: run for run in records}, client

    return runs


class Notified:
    """A tracker that is notified as a driver notifies its observers."""

    def __init__(self, spec, earlier=(), client=None):
        self._history = fold(earlier, spec.objective)
        self._tracker = Tracker("mlflow", spec, self._history, client)

    def __call__(self, event):
        self._history.apply(event)
        self._tracker(event)

    def close(self):
        self._tracker.close()


def test_tracker_makes_a_run_of_each_trial(spec, mlflow):
    story = Writer(spec.folder)
    story.trial(0, [{"val_loss": 0.5}, {"val_loss": 0.25}], config=CONFIG)
    story.trial(1, [{"val_loss": 0.5}], end="stopped", config=CONFIG)
    story.trial(2, [], error=("oom", "m"), config=CONFIG)
    story.trial(3, [], end="interrupted", config=CONFIG)
    tracker = Notified(spec)
    for event in story.events:
        tracker(event)
    tracker.close()
    runs, client = mlflow()
    ends = {name: (run.info.status, run.data.tags["status"]) for name, run in runs.items()}
    assert ends == {
        "digits 00000": ("FINISHED", "completed"),
        "digits 00001": ("FINISHED", "stopped"),
        "digits 00002": ("FAILED", "failed"),
        "digits 00003": ("KILLED", "interrupted"),
    }
    run = runs["digits 00000"]
    assert run.data.params == {"lr": "0.25", "layers": "[1, 2]", "optimizer/name": "sgd"}
    history = client.get_metric_history(run.info.run_id, "val_loss")
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 0.25)]


def test_tracker_resume_continues_the_run(spec, mlflow):
    story = Writer(spec.folder)
    story.trial(0, [{"val_loss": 0.5}], end=None, config=CONFIG)
    story.kill()
    before = Notified(spec)
    for event in story.events:
        before(event)
    before.close()
    again = Writer(spec.folder, resumed=True)
    again.trial(0, [{"val_loss": 0.25}], config=CONFIG, first=2)
    after = Notified(spec, earlier=story.events)
    for event in again.events:
        after(event)
    after.close()
    runs, client = mlflow()
    assert list(runs) == ["digits 00000"]
    run = runs["digits 00000"]
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "val_loss")
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 0.25)]


class Broken:
    """A client whose server has gone away."""

    def __init__(self):
        self.calls = 0

    def start(self, run_id, name, config):
        self.calls += 1
        raise ConnectionError("no route to host")

    def close(self):
        raise ConnectionError("no route to host")


def test_tracker_failure_warns_once(spec, caplog):
    broken = Broken()
    tracker = Notified(spec, client=broken)
    tracker({"event": "experiment_started", "time": START, "resumed": False, "owner": OWNER})
    for number in range(3):
        started = {"event": "trial_started", "time": START, "config": {}}
        tracker({**started, "trial_id": f"{number:05}"})
    tracker.close()
    assert broken.calls == 1
    assert [record.getMessage() for record in caplog.records] == [
        "no longer logged to mlflow: no route to host"
    ]
    assert caplog.records[0].levelno == logging.WARNING
