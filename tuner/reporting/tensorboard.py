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
from pathlib import Path
from typing import Any

from tuner.experiment.events import EXPERIMENT_STARTED, RESULT, TRIAL_ENDED, TRIAL_STARTED, Event
from tuner.experiment.files import make_folder
from tuner.experiment.history import History
from tuner.experiment.trials import TrialRecord
from tuner.reporting import event_file
from tuner.reporting.hparams import PLUGIN, Summaries, columns_of
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.space.domains import Choice
from tuner.spec.strategies import GridSettings

_log = logging.getLogger(__name__)
HPARAMS = f"{event_file.PREFIX}0000000000.hparams"  # read before all others
_TELLING = ("val_accuracy", "val_loss")  # of what the classifier that ships reports
_NOT_IN_A_TAG = re.compile(r"[^-/\w.]")


class TensorBoardWriter:
    """An observer of events that writes what TensorBoard shows of every trial.

    history: the experiment's, up to the event that is being observed. A disk that fails is logged
    once and ends the writing, not the search: the journal has it all.
    """

    def __init__(self, spec: ExperimentSpec, history: History) -> None:
        self._folder = spec.folder
        self._metric = spec.objective.metric
        self._history = history
        self._files: dict[str, Path] = {}
        self._seed = spec.constants["seed"]
        columns = columns_of(_space_with_seed(spec))
        self._summaries = Summaries(spec.name, columns, metric_columns(spec))
        self._failed = False

    def __call__(self, event: Event) -> None:
        """Take one event and write what it changes."""
        if self._failed:
            return
        try:
            self._write(event)
        except OSError as error:
            self._failed = True
            _log.warning("TensorBoard files are no longer written: %s", error)

    def _write(self, event: Event) -> None:
        kind = event["event"]
        if kind == EXPERIMENT_STARTED:
            for trial in self._history.trials.values():
                self._show(trial)
        elif kind in (TRIAL_STARTED, TRIAL_ENDED):
            self._show(self._history.trials[event["trial_id"]])
        elif kind == RESULT:
            self._report(event)

    def _show(self, trial: TrialRecord) -> None:
        """Write what the HPARAMS tab shows of a trial as it stands now."""
        config = {"seed": self._seed if trial.seed is None else trial.seed, **trial.config}
        contents = self._summaries.of_trial(
            config, trial.status, started=trial.started, ended=trial.ended
        )
        data = event_file.version_record(time=trial.started)
        data += event_file.plugin_record(PLUGIN, contents, time=trial.started)
        event_file.replace(self._run(trial.trial_id) / HPARAMS, data)

    def _report(self, event: Event) -> None:
        trial_id, epoch, metrics = event["trial_id"], event["epoch"], event["metrics"]
        scalars = {tag_of(name, self._metric): value for name, value in metrics.items()}
        best = self._history.trials[trial_id].best
        if self._metric in metrics and best is not None:
            scalars[best_tag(self._metric)] = best.value
        data = b""
        if trial_id not in self._files:
            data = self._begin(trial_id, epoch, event["time"])
        data += event_file.scalars_record(scalars, step=epoch, time=event["time"])
        event_file.append(self._files[trial_id], data)

    def _begin(self, trial_id: str, epoch: int, time: float) -> bytes:
        """Choose the trial's file; what must come before its first report of this process."""
        run = self._run(trial_id)
        files = {path.name for path in run.iterdir() if path.name.startswith(event_file.PREFIX)}
        file = run / event_file.file_name(time)
        data = b"" if file.exists() else event_file.version_record(time=time)
        if files - {HPARAMS}:
            # Takes back points from this step on, had the run before got further than its journal.
            data += event_file.restart_record(step=epoch, time=time)
        self._files[trial_id] = file
        return data

    def _run(self, trial_id: str) -> Path:
        run = logdir(self._folder) / trial_id
        make_folder(run, below=self._folder)
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
