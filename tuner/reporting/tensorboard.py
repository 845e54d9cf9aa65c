"""TensorBoard's view of a search: event files, written from events while the search runs.

The logdir is STORAGE/NAME/trials, so that a run is named by its trial's id. A point has the epoch
as its step and the event's time as its wall time. Tags: train/*, val/*, system/*, the objective
where its name says neither (objective/*), and best/METRIC, the trial's best value so far.

Scalars are appended to a file for each time that the search was started. What the HPARAMS tab
shows of a trial, its status included, is a small file of its own that is replaced whenever the
status changes: of a record that comes twice TensorBoard keeps the first. It keeps it as long as it
runs, too, which `tuner.reporting.tensorboard_server` mends; one that is started by hand shows the
status that it met first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.record.events import (
    EXPERIMENT_STARTED,
    INTERRUPTED,
    RESULT,
    RUNNING,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.record.history import TrialRecord
from tuner.reporting import event_file
from tuner.reporting.hparams import PLUGIN, Summaries, columns_of
from tuner.results.selection import score
from tuner.space.domains import Choice
from tuner.spec.experiment import ExperimentSpec, GridSettings

_log = logging.getLogger(__name__)
HPARAMS = f"{event_file.PREFIX}0000000000.hparams"  # read before all others
_TELLING = ("val_accuracy", "val_loss")  # of what the classifier that ships reports
_NOT_IN_A_TAG = re.compile(r"[^-/\w.]")


@dataclass(frozen=True, slots=True)
class _Row:
    """What the HPARAMS tab shows of a trial, but for its metrics."""

    config: Mapping[str, Any]
    started: float


class TensorBoardWriter:
    """An observer of events that writes what TensorBoard shows of every trial.

    `earlier` are the trials of the runs before a resume. A disk that fails is logged once and
    ends the writing, not the search: the journal has it all.
    """

    def __init__(self, spec: ExperimentSpec, *, earlier: Mapping[str, TrialRecord]) -> None:
        self._folder = spec.folder
        self._metric = spec.objective.metric
        self._mode = spec.objective.mode
        self._best: dict[str, float] = {}
        self._rows: dict[str, _Row] = {}
        self._files: dict[str, Path] = {}
        self._earlier = earlier
        self._records = event_file.Records()
        self._seed = spec.constants["seed"]
        columns = columns_of(_space_with_seed(spec))
        self._summaries = Summaries(spec.name, columns, metric_columns(spec))
        self._failed = False
        for trial in earlier.values():
            values = [value for _, value in trial.values(self._metric)]
            best = score(values, mode=self._mode, scope="best")
            if best is not None:
                self._best[trial.trial_id] = best

    def __call__(self, event: Event) -> None:
        """Take one event and write what it changes."""
        if self._failed:
            return
        try:
            self._take(event)
        except OSError as error:
            self._failed = True
            _log.warning("TensorBoard files are no longer written: %s", error)

    def _take(self, event: Event) -> None:
        kind = event["event"]
        if kind == EXPERIMENT_STARTED:
            for trial in self._earlier.values():
                self._recall(trial)
        elif kind == TRIAL_STARTED:
            config = self._config(event["config"], event.get("seed"))
            row = self._rows.setdefault(event["trial_id"], _Row(config, event["time"]))
            self._show(event["trial_id"], row, RUNNING)
        elif kind == RESULT:
            self._report(event)
        elif kind == TRIAL_ENDED:
            row = self._rows[event["trial_id"]]
            self._show(event["trial_id"], row, event["status"], ended=event["time"])

    def _recall(self, trial: TrialRecord) -> None:
        """Show a trial as the runs before left it; the driver that ran it is gone."""
        row = self._rows[trial.trial_id] = _Row(
            self._config(trial.config, trial.seed), trial.started
        )
        status = INTERRUPTED if trial.status == RUNNING else trial.status
        self._show(trial.trial_id, row, status, ended=trial.ended)

    def _config(self, config: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """A trial's config and the seed it trains with; `seed` is its own, if it has one."""
        return {"seed": self._seed if seed is None else seed, **config}

    def _show(self, trial_id: str, row: _Row, status: str, *, ended: float | None = None) -> None:
        contents = self._summaries.of_trial(row.config, status, started=row.started, ended=ended)
        data = self._records.version(time=row.started)
        data += self._records.plugin_data(PLUGIN, contents, time=row.started)
        event_file.replace(self._run(trial_id) / HPARAMS, data)

    def _report(self, event: Event) -> None:
        trial_id, epoch, metrics = event["trial_id"], event["epoch"], event["metrics"]
        scalars = {tag_of(name, self._metric): value for name, value in metrics.items()}
        if self._metric in metrics:
            earlier = self._best.get(trial_id, metrics[self._metric])
            pick = min if self._mode == "min" else max
            self._best[trial_id] = pick(earlier, metrics[self._metric])
            scalars[best_tag(self._metric)] = self._best[trial_id]
        data = b""
        if trial_id not in self._files:
            data = self._begin(trial_id, epoch, event["time"])
        data += self._records.scalars(scalars, step=epoch, time=event["time"])
        event_file.append(self._files[trial_id], data)

    def _begin(self, trial_id: str, epoch: int, time: float) -> bytes:
        """Choose the trial's file; what must come before its first report of this process."""
        run = self._run(trial_id)
        files = {path.name for path in run.iterdir() if path.name.startswith(event_file.PREFIX)}
        file = run / event_file.file_name(time)
        data = b"" if file.exists() else self._records.version(time=time)
        if files - {HPARAMS}:
            # Takes back points from this step on, had the run before got further than its journal.
            data += self._records.restart(step=epoch, time=time)
        self._files[trial_id] = file
        return data

    def _run(self, trial_id: str) -> Path:
        run = logdir(self._folder) / trial_id
        run.mkdir(parents=True, exist_ok=True)
        return run


def logdir(folder: Path) -> Path:
    """What `tensorboard --logdir` shows of the experiment in `folder`: one run a trial."""
    return folder / "trials"


def tag_of(metric: str, objective: str) -> str:
    """The tag of a reported metric.

    >>> [tag_of(m, "val_accuracy") for m in ("train_loss", "val_accuracy", "lr", "epoch_s")]
    ['train/loss', 'val/accuracy', 'train/lr', 'system/epoch_s']
    >>> tag_of("accuracy", "accuracy")
    'objective/accuracy'
    """
    for split in ("train", "val"):
        if metric.startswith(f"{split}_"):
            return _clean(f"{split}/{metric.removeprefix(f'{split}_')}")
    group = "train" if metric == "lr" else "objective" if metric == objective else "system"
    return _clean(f"{group}/{metric}")


def best_tag(metric: str) -> str:
    """The tag of the best value so far."""
    return _clean(f"best/{metric}")


def metric_columns(spec: ExperimentSpec) -> list[str]:
    """The tags that the HPARAMS tab shows: the best, the last, what else tells how good it is."""
    objective = spec.objective.metric
    others = [metric for metric in _TELLING if spec.ships and metric != objective]
    return [best_tag(objective), *(tag_of(metric, objective) for metric in (objective, *others))]


def _space_with_seed(spec: ExperimentSpec) -> dict[str, Any]:
    """The search space, and before it what the seeds may be where they are not in it."""
    seeds = spec.search.seeds if isinstance(spec.search, GridSettings) else ()
    seed = Choice(seeds) if seeds else spec.constants["seed"]
    return {"seed": seed, **spec.search.space}


def _clean(tag: str) -> str:
    return _NOT_IN_A_TAG.sub("_", tag)
