"""Runs an experiment: one `tune.run`, whose every report is journaled before it has an effect."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tuner import cluster
from tuner.errors import ExperimentError, InterruptedSearchError, UsageError
from tuner.events import COMPLETED, EXPERIMENT_ENDED, EXPERIMENT_STARTED, FAILED, INTERRUPTED
from tuner.journal import Journal, this_owner
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.results import Results
from tuner.spec import ExperimentSpec

if TYPE_CHECKING:
    from tuner.recorder import Observer

FORMAT = 1  # of experiment.json
_PACKAGES = (
    *("tuner", "torch", "ray", "hyperopt", "bayesian-optimization", "tensorboardX"),
    *("pandas", "numpy", "scikit-learn"),
)


def run_experiment(spec: ExperimentSpec) -> Results:
    """Search as `spec` says and return the results; progress goes to stderr.

    Uses the Ray that this process is connected to, else starts one on this machine for the time of
    the run. Trials that fail do not end it. Raises UsageError where the experiment exists,
    InterruptedSearchError after SIGINT, SIGTERM or SIGHUP, and ExperimentError for the
    experiment's own faults; whatever was reported by then is in the journal.
    """
    folder = _claim(spec)
    with (
        Journal.open(folder) as journal,
        _Ending(spec.time_budget_s) as ending,
        contextlib.closing(TensorBoardWriter(folder)) as tensorboard,
        contextlib.closing(_progress(spec)) as progress,
        cluster.connect(),
    ):
        _search(spec, journal, [tensorboard, progress], ending)
    if ending.signal is not None:
        name = signal.Signals(ending.signal).name
        raise InterruptedSearchError(
            f"{name} ended the search; what was reported is in {folder}", ending.signal
        )
    return Results(folder)


def _search(
    spec: ExperimentSpec, journal: Journal, observers: list[Observer], ending: _Ending
) -> None:
    """The one call of `tune.run`, and the events around it."""
    from ray import tune

    from tuner.recorder import Recorder
    from tuner.schedulers import Asha, StopAll
    from tuner.searchers import build_searcher
    from tuner.searchers.source import TrialSource
    from tuner.trials import tune_trainable

    scheduler = Asha(spec.scheduler, spec.objective) if spec.scheduler else None
    recorder = Recorder(journal, observers, scheduler.stopped if scheduler else set())
    slots = cluster.slots(spec.resources.cpus, spec.resources.gpus, spec.resources.workers)
    # One trial waits beside those that run, so that no slot waits for the driver
    limit = min(spec.max_concurrent or slots + 1, slots + 1)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(limit)
    strategy = build_searcher(spec.search, spec.seed)
    source = TrialSource(strategy, total=spec.trials, limit=limit)
    recorder.emit(EXPERIMENT_STARTED, resumed=False, owner=this_owner())
    status = FAILED
    try:
        with tempfile.TemporaryDirectory(prefix="tuner-tune-") as ray_files:
            tune.run(
                tune_trainable(spec),
                name="tune",
                metric=spec.objective.metric,
                mode=spec.objective.mode,
                num_samples=-1 if spec.trials is None else spec.trials,
                search_alg=source,
                scheduler=scheduler,
                stop=StopAll(lambda: ending.has_come() or recorder.error is not None),
                callbacks=[recorder],
                storage_path=ray_files,
                reuse_actors=True,
                raise_on_failed_trial=False,
                verbose=0,
            )
        status = COMPLETED if ending.signal is None else INTERRUPTED
    except tune.TuneError as error:
        raise ExperimentError(f"Ray Tune failed: {error}") from error
    finally:
        recorder.interrupt_live()
        recorder.emit(EXPERIMENT_ENDED, status=status)
    if recorder.error is not None:
        raise recorder.error


class _Ending:
    """Knows when the search is to end before its trials do: on a signal, or out of time.

    As a context it takes over SIGINT, SIGTERM and SIGHUP; a second one is not held back.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, time_budget_s: float | None) -> None:
        self.signal: int | None = None
        self._deadline = None if time_budget_s is None else time.monotonic() + time_budget_s
        self._handlers: dict[int, Any] = {}

    def has_come(self) -> bool:
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self.signal is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._handlers = {s: signal.signal(s, self._on_signal) for s in self._SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: object) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}


def _progress(spec: ExperimentSpec) -> Progress:
    return Progress(
        total=spec.trials,
        max_t=spec.epochs,
        metric=spec.objective.metric,
        mode=spec.objective.mode,
    )


def _claim(spec: ExperimentSpec) -> Path:
    """The experiment's new folder, with its experiment.json."""
    folder = spec.folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        raise UsageError(
            f"experiment {spec.name!r} exists in {folder.parent}; "
            f"go on with it by: tuner resume {spec.name}, or give another name"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}") from error
    partial = folder / "experiment.json.partial"
    partial.write_text(json.dumps(_description(spec), indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / "experiment.json")
    return folder


def _description(spec: ExperimentSpec) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "spec": spec.model_dump(mode="json"),
        "seed": spec.seed,
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "git_revision": _git_revision(),
    }


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            yield package, version(package)


def _git_revision() -> str | None:
    """The commit of the working directory; None where it is in no repository, or git is not."""
    try:
        git = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return git.stdout.strip()
