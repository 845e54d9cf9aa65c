"""MLflow, with its own files; integration/test_tracking.py has Weights & Biases."""

import logging
import os

import pytest
from synthetic import OWNER, START, Writer

from tuner.errors import UsageError
from tuner.experiment.history import fold
from tuner.reporting.trackers import Tracker
from tuner.spec.experiment import build_spec

CONFIG = {"lr": 0.25, "layers": [1, 2], "optimizer": {"name": "sgd"}}


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    search = {"space": {"lr": "uniform(0, 1)"}}
    fields = {
        "name": "digits",
        "storage": str(tmp_path),
        "search": search,
        "num_samples": 4,
    }
    spec = build_spec({**fields, "log": "mlflow"})
    spec.folder.mkdir()
    return spec


@pytest.fixture
def list_runs(spec):
    """A function: what the files that the tracker writes hold of each run."""
    pytest.importorskip(
        "mlflow", reason="no test of MLflow: pip install 'tuner[mlflow]'"
    )
    from mlflow.tracking import MlflowClient

    # Restored with the fixture of the spec
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    client = MlflowClient(tracking_uri=(spec.folder.parent / "mlruns").as_uri())

    def describe(run):
        points = client.get_metric_history(run.info.run_id, "val_loss")
        losses = [(point.step, point.value) for point in points]
        return (
            run.info.run_name,
            run.info.status,
            run.data.tags["status"],
            run.data.params,
            losses,
        )

    def list_them():
        experiment = client.get_experiment_by_name("digits")
        return sorted(map(describe, client.search_runs([experiment.experiment_id])))

    return list_them


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


def test_tracker_makes_a_run_of_each_trial(snapshot, spec, list_runs):
    story = Writer(spec.folder)
    story.trial(0, [{"val_loss": 0.5}, {"val_loss": 0.25}], config=CONFIG)
    story.trial(1, [{"val_loss": 0.5}], end="stopped", config=CONFIG)
    story.trial(2, [], error=("oom", "m"), config=CONFIG)
    story.trial(3, [], end="interrupted", config=CONFIG)
    notify(story.events, Notified(spec))
    snapshot.compare_value(list_runs())


def test_tracker_resume_continues_the_run(snapshot, spec, list_runs):
    story = Writer(spec.folder)
    story.trial(0, [{"val_loss": 0.5}], end=None, config=CONFIG)
    story.kill()
    notify(story.events, Notified(spec))
    again = Writer(spec.folder, resumed=True)
    again.trial(0, [{"val_loss": 0.25}], config=CONFIG, first=2)
    notify(again.events, Notified(spec, earlier=story.events))
    snapshot.compare_value(list_runs())


def notify(events, tracker):
    for event in events:
        tracker(event)
    tracker.close()


@pytest.mark.parametrize(
    "code",
    [
        "Lines = 5",
        "def Lines(): ...",
        "def Lines(spec): ...",
        "def Lines(spec): raise OSError(5)",
    ],
)
def test_broken_tracker_of_a_package_is_refused(install, spec, snapshot, code):
    install("tuner-lab", code, trackers=("lines", "Lines"))
    with snapshot.raises(UsageError):
        Tracker("lines", spec, fold([], spec.objective))


LOSES = """
from unittest.mock import Mock

def Lines(spec):
    return Mock(spec_set=["start", "report", "end", "close"], report=Mock(side_effect=OSError(5)))
"""


def test_tracker_of_a_package_that_fails_later_is_named(install, spec, caplog):
    install("tuner-lab", LOSES, trackers=("lines", "Lines"))
    story = Writer(spec.folder)
    story.trial(0, [{"val_loss": 0.5}, {"val_loss": 0.25}], config=CONFIG)
    history = fold([], spec.objective)
    tracker = Tracker("lines", spec, history)
    for event in story.events:
        history.apply(event)
        tracker(event)
    tracker.close()
    assert caplog.messages == ["no longer logged to lines of tuner-lab 1.0: 5"]


class Broken:
    """A client whose server has gone away."""

    def __init__(self):
        self.calls = 0

    def start(self, run_id, name, config):
        self.calls += 1
        raise ConnectionError("no route to host")

    report = end = start

    def close(self):
        raise ConnectionError("no route to host")


def test_tracker_failure_warns_once(spec, caplog):
    broken = Broken()
    events = [
        {"event": "experiment_started", "time": START, "resumed": False, "owner": OWNER}
    ]
    for number in range(3):
        started = {"event": "trial_started", "time": START, "config": {}}
        events.append(started | {"trial_id": f"{number:05}"})
    notify(events, Notified(spec, client=broken))
    assert broken.calls == 1
    [(_, level, message)] = caplog.record_tuples
    assert (level, message) == (
        logging.WARNING,
        "no longer logged to mlflow: no route to host",
    )
