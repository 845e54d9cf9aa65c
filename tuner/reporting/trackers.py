"""Experiment trackers: `--log wandb` and `--log mlflow`, a run for each trial.

A resumed search continues its runs. To add a tracker: a class with the methods of TrackerClient,
its path in `tuner.plugins`, and its extra in pyproject.toml.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tuner.errors import UsageError, describe_error, translate_error
from tuner.experiment.events import (
    FAILED,
    INTERRUPTED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.experiment.history import History
from tuner.plugins import TRACKERS
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flatten

_log = logging.getLogger(__name__)


@runtime_checkable
class TrackerClient(Protocol):
    """A connection to a tracker, built from a spec. All calls come from one thread.

    run_id: unique in the tracker, the same after a resume.
    """

    def start(self, run_id: str, name: str, config: Mapping[str, Any]) -> None:
        """Begin a run, or go on with it."""

    def report(self, run_id: str, event: Event) -> None:
        """Log a report: the `metrics` of an `epoch`, and the `time` in seconds since the epoch."""

    def end(self, run_id: str, status: str) -> None:
        """End a run with the status of its trial, such as "completed"."""

    def close(self) -> None:
        """Send what waits, and end what runs beside this process."""


class Tracker:
    """An observer that passes events to a tracker, in a thread, so that none delays the search.

    After a failure, such as that of a network, it warns and stops logging. Raises UsageError if the
    tracker cannot be set up. client: by default that of `name`.
    """

    def __init__(
        self,
        name: str,
        spec: ExperimentSpec,
        history: History,
        client: TrackerClient | None = None,
    ) -> None:
        self._name = TRACKERS.describe(name)
        self._experiment = spec.name
        self._history = history
        self._failed = False
        text = f"cannot log to {self._name}"
        with translate_error(UsageError, text):  # libraries raise many kinds
            self._client = client or TRACKERS.load(name)(spec)
        if not isinstance(self._client, TrackerClient):
            raise UsageError(f"{text}: it lacks a method of TrackerClient")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        trial_id = event.get("trial_id")
        run_id = f"{self._experiment}-{round(self._history.started or 0)}-{trial_id}"
        if kind == TRIAL_STARTED:
            name = f"{self._experiment} {trial_id}"
            self._submit(partial(self._client.start, run_id, name, event["config"]))
        elif kind == RESULT:
            self._submit(partial(self._client.report, run_id, event))
        elif kind == TRIAL_ENDED:
            self._submit(partial(self._client.end, run_id, event["status"]))

    def close(self) -> None:
        """Wait until the tracker has received everything."""
        self._thread.submit(self._run_guarded, self._client.close)
        self._thread.shutdown()

    def _submit(self, call: Callable[[], None]) -> None:
        self._thread.submit(lambda: None if self._failed else self._run_guarded(call))

    def _run_guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # libraries raise many kinds
            if not self._failed:
                _log.warning(
                    "no longer logged to %s: %s", self._name, describe_error(error)
                )
            self._failed = True


class Wandb:
    """Weights & Biases; WANDB_MODE=offline keeps the runs in STORAGE/wandb."""

    def __init__(self, spec: ExperimentSpec) -> None:
        import wandb

        names = (
            os.environ.get(name) for name in ("WANDB_PROJECT_NAME", "WANDB_PROJECT")
        )
        self._runs: dict[str, wandb.Run] = {}
        self._init = partial(
            wandb.init,
            project=next(filter(None, names), "tuner"),
            group=spec.name,
            dir=str(_find_folder(spec)),
            resume="allow",
            reinit="create_new",  # trials run side by side
            settings=wandb.Settings(console="off", silent=True),
        )

    def start(self, run_id: str, name: str, config: Mapping[str, Any]) -> None:
        if run_id not in self._runs:
            self._runs[run_id] = self._init(id=run_id, name=name, config=dict(config))

    def report(self, run_id: str, event: Event) -> None:
        self._runs[run_id].log(event["metrics"], step=event["epoch"])

    def end(self, run_id: str, status: str) -> None:
        if run := self._runs.pop(run_id, None):
            run.summary["status"] = status
            run.finish(exit_code=int(status in (FAILED, INTERRUPTED)))

    def close(self) -> None:
        import wandb

        for run in self._runs.values():
            run.finish()
        if wandb.run is None:  # else the user's own
            wandb.teardown()


class Mlflow:
    """MLflow, at MLFLOW_TRACKING_URI, by default files in STORAGE/mlruns."""

    def __init__(self, spec: ExperimentSpec) -> None:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if uri is None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            uri = (_find_folder(spec) / "mlruns").as_uri()
        from mlflow.tracking import MlflowClient

        self._client = client = MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(spec.name)
        self._experiment_id = (
            known.experiment_id if known else client.create_experiment(spec.name)
        )
        self._runs: dict[str, str] = {}  # MLflow's ids by ours

    def start(self, run_id: str, name: str, config: Mapping[str, Any]) -> None:
        client = self._client
        if runs := client.search_runs(
            [self._experiment_id], f"tags.tuner_run = '{run_id}'"
        ):
            self._runs[run_id] = runs[0].info.run_id
            client.update_run(self._runs[run_id], status="RUNNING")
            return
        run = client.create_run(
            self._experiment_id, tags={"tuner_run": run_id}, run_name=name
        )
        self._runs[run_id] = run.info.run_id
        for key, value in flatten(config, "/").items():
            client.log_param(run.info.run_id, key, value)

    def report(self, run_id: str, event: Event) -> None:
        from mlflow.entities import Metric

        moment_ms = round(event["time"] * 1000)
        metrics = [
            Metric(k, v, moment_ms, event["epoch"]) for k, v in event["metrics"].items()
        ]
        self._client.log_batch(self._runs[run_id], metrics)

    def end(self, run_id: str, status: str) -> None:
        if run := self._runs.pop(run_id, None):
            self._client.set_tag(run, "status", status)
            ends = {FAILED: "FAILED", INTERRUPTED: "KILLED"}
            self._client.set_terminated(run, status=ends.get(status, "FINISHED"))

    def close(self) -> None:
        pass  # every call has been answered


def _find_folder(spec: ExperimentSpec) -> Path:
    """Where a tracker keeps its files: the same for all experiments of a storage."""
    return spec.folder.parent.resolve()
