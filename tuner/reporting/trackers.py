"""Experiment trackers, `--log wandb` and `--log mlflow`, through Ray Tune's own callbacks.

They get the journal's events, trial by trial: a run is named by its trial's id and goes on after
a resume. To add one: its name in `tuner.spec`, its extra in pyproject.toml, and
one line in _BUILDERS.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tuner import ray_compat
from tuner.errors import UsageError
from tuner.experiment.events import FAILED, INTERRUPTED, RESULT, TRIAL_ENDED, TRIAL_STARTED, Event
from tuner.experiment.history import History
from tuner.spec.experiment import ExperimentSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TrialView:
    """The attributes of a trial that Ray's callbacks read.

    trial_id: the tracker's unique id of the run, the same after a resume.
    """

    name: str
    trial_id: str
    config: Mapping[str, Any]
    experiment_dir_name: str
    local_path: str

    def __str__(self) -> str:
        return self.name


class Tracker:
    """An observer that passes events to Ray's callback of the tracker `name`.

    After a failure, such as that of a network, it warns and stops logging. Raises UsageError if the
    tracker cannot be set up.
    """

    def __init__(self, name: str, spec: ExperimentSpec, history: History) -> None:
        self._name = name
        self._spec = spec
        self._history = history
        self._views: dict[str, TrialView] = {}
        self._failed = False
        try:
            self._callback, self._before_start, self._after_end = _BUILDERS[name](spec)
            self._callback.setup()
        except Exception as error:  # libraries raise many kinds
            raise UsageError(f"cannot log to {name}: {error}") from error

    def __call__(self, event: Event) -> None:
        """Take one event and pass it on."""
        self._guarded(partial(self._take, event))

    def close(self) -> None:
        """Wait until the tracker has received everything."""
        self._guarded(partial(self._callback.on_experiment_end, trials=list(self._views.values())))

    def _guarded(self, call: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            call()
        except Exception as error:  # libraries raise many kinds
            self._failed = True
            _log.warning("no longer logged to %s: %s", self._name, error)

    def _take(self, event: Event) -> None:
        kind = event["event"]
        if kind == TRIAL_STARTED:
            view = self._views[event["trial_id"]] = self._view(event["trial_id"], event["config"])
            self._before_start(view)
            self._callback.log_trial_start(view)
        elif kind == RESULT:
            result = {**event["metrics"], "training_iteration": event["epoch"]}
            self._callback.log_trial_result(event["epoch"], self._views[event["trial_id"]], result)
        elif kind == TRIAL_ENDED and event["trial_id"] in self._views:
            view = self._views.pop(event["trial_id"])
            self._callback.log_trial_end(view, failed=event["status"] == FAILED)
            self._after_end(view, event["status"])

    def _view(self, trial_id: str, config: Mapping[str, Any]) -> TrialView:
        name = self._spec.name
        return TrialView(
            name=f"{name} {trial_id}",
            trial_id=f"{name}-{round(self._history.started or 0)}-{trial_id}",
            config=dict(config),
            experiment_dir_name=name,
            local_path=str(_folder(self._spec)),
        )


def _folder(spec: ExperimentSpec) -> Path:
    """Where a tracker keeps its files: the same for all experiments of a storage."""
    return spec.folder.parent.resolve()


_Parts = tuple[Any, Callable[[TrialView], None], Callable[[TrialView, str], None]]


def _wandb(spec: ExperimentSpec) -> _Parts:
    """Weights & Biases; WANDB_MODE=offline keeps the runs in STORAGE/wandb."""
    from ray.air.integrations.wandb import WandbLoggerCallback

    names = (os.environ.get(name) for name in ("WANDB_PROJECT_NAME", "WANDB_PROJECT"))
    callback = WandbLoggerCallback(
        project=next(filter(None, names), "tuner"),
        group=spec.name,
        dir=str(_folder(spec)),
        mode=os.environ.get("WANDB_MODE"),
        resume="allow",
    )
    return callback, lambda view: None, lambda view, status: None


def _mlflow(spec: ExperimentSpec) -> _Parts:
    """MLflow, at MLFLOW_TRACKING_URI, by default files in STORAGE/mlruns."""
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri is None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = (_folder(spec) / "mlruns").as_uri()
    from mlflow.tracking import MlflowClient
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    callback = MLflowLoggerCallback(tracking_uri=uri, experiment_name=spec.name)
    client = MlflowClient(tracking_uri=uri)

    def go_on(view: TrialView) -> None:
        """Let Ray's callback find the run of an earlier part of the search, or make one."""
        experiment: Any = callback.mlflow_util.experiment_id  # known once it is set up
        runs = client.search_runs([experiment], f"tags.tuner_run = '{view.trial_id}'")
        callback.tags = {"tuner_run": view.trial_id}
        if runs:
            run_id = ray_compat.mlflow_runs(callback)[view] = runs[0].info.run_id
            client.update_run(run_id, status="RUNNING")

    def tell_status(view: TrialView, status: str) -> None:
        """Ray's callback knows success and failure only."""
        run_id = ray_compat.mlflow_runs(callback).get(view)
        if run_id is None:
            return
        client.set_tag(run_id, "status", status)
        if status == INTERRUPTED:
            client.set_terminated(run_id, status="KILLED")

    return callback, go_on, tell_status


_BUILDERS: Mapping[str, Callable[[ExperimentSpec], _Parts]] = {"wandb": _wandb, "mlflow": _mlflow}
