"""TensorBoard's event files, written while the search runs.

The logdir is STORAGE/NAME/trials, so that a run has the name of its trial. A point has the epoch as
its step. Tags: train/*, val/*, system/*, objective/* for an objective without a split in its name,
metric/* for other metrics of the user's, and best/METRIC, the trial's best value so far.

Scalars are appended to one file for each start of the search. The trial's row in the HPARAMS tab is
a small file that is replaced whenever the status changes: TensorBoard keeps the first of two equal
tags in a file. TensorBoard finds the columns itself, from the rows of all trials.

tensorboardX writes the records. Its SummaryWriter has a file, a queue and a thread for each trial.
Here a report is one record, appended at once, so that thousands of paused trials need no
descriptor, and a kill tears no other record.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from tuner.experiment import events
from tuner.experiment.files import create_folder, open_plain
from tuner.experiment.history import History
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flatten, is_number
from tuner.spec.sections import MEASURED
from tuner.spec.space.domains import Choice, Space
from tuner.spec.space.spaces import walk
from tuner.wording import clean_text


def _defer_package(name: str) -> None:
    """Let the package's submodules be imported without its `__init__`.

    That runs at the first other attribute: for the code of a user that takes `SummaryWriter`.
    """
    spec: Any = find_spec(name)
    package: Any = module_from_spec(spec)

    def load(attribute: str) -> Any:
        del package.__getattr__
        spec.loader.exec_module(package)
        return getattr(package, attribute)

    package.__getattr__ = load
    sys.modules.setdefault(name, package)


# Its `__init__` imports torch: 1.2 s and 180 MB. Tried with tensorboardX 2.6.2.2 to 2.6.5
_defer_package("tensorboardX")

from tensorboardX.proto.event_pb2 import Event  # noqa: E402
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData  # noqa: E402
from tensorboardX.record_writer import RecordWriter, register_writer_factory  # noqa: E402

_log = logging.getLogger(__name__)
PREFIX = "events.out.tfevents."
HPARAMS = f"{PREFIX}0000000000.hparams"  # read before all others
# Of a value that has only metadata
_NO_DATA = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{}]}}
# In TensorBoard's Status unknown is 0, success 1, failure 2, running 3
_SESSION = {
    events.RUNNING: 3,
    events.COMPLETED: 1,
    events.STOPPED: 1,
    events.FAILED: 2,
    events.INTERRUPTED: 0,
}
_OF_THE_SYSTEM = frozenset(
    (
        *MEASURED,
        "data_s",
        "images_per_s",
        "latency_ms",
        "micro_batch_size",
        "parameters",
    )
)
_VERSION = "brain.Event:2"
# For paths that a RecordWriter appends to, where it would truncate
_APPENDING = "tuner-append"
_LARGEST_WRITE = 1 << 20
_NOT_IN_A_TAG = re.compile(r"[^-/\w.]")


class TensorBoardWriter:
    """An observer of events that writes the event files of all trials.

    history: that of the experiment, up to the observed event. If the disk fails, that is logged
    once, and the search continues without event files.
    """

    def __init__(self, spec: ExperimentSpec, history: History) -> None:
        self._folder = spec.folder
        self._metric = spec.objective.metric
        self._history = history
        self._files: dict[str, Path] = {}
        self._seed = spec.constants["seed"]
        self._texts = find_text_columns(spec.search.space)
        self._failed = False

    def __call__(self, event: events.Event) -> None:
        kind = event["event"]
        trials = self._history.trials
        if self._failed:
            return
        try:
            if kind == events.EXPERIMENT_STARTED:
                for trial in trials.values():
                    self._show(trial)
            elif kind in (events.TRIAL_STARTED, events.TRIAL_ENDED):
                self._show(trials[event["trial_id"]])
            elif kind == events.RESULT:
                self._report(event)
        except OSError as error:
            self._failed = True
            _log.warning("TensorBoard files are no longer written: %s", error)

    def _show(self, trial: TrialRecord) -> None:
        """Write the current row of a trial in the HPARAMS tab."""
        config = {
            "seed": self._seed if trial.seed is None else trial.seed,
            **trial.config,
        }
        started = HParamsPluginData(
            session_start_info={"start_time_secs": trial.started}
        )
        for name, value in build_hparams_row(config, trial.status, self._texts).items():
            field = {bool: "bool_value", str: "string_value"}.get(
                type(value), "number_value"
            )
            setattr(started.session_start_info.hparams[name], field, value)
        end = {"status": _SESSION[trial.status], "end_time_secs": trial.ended or 0}
        ended = HParamsPluginData(session_end_info=end)
        row = Event(wall_time=trial.started)
        for name, content in {"start": started, "end": ended}.items():
            data = {"plugin_name": "hparams", "content": content.SerializeToString()}
            tag = f"_hparams_/session_{name}_info"
            row.summary.value.add(
                tag=tag, tensor=_NO_DATA, metadata={"plugin_data": data}
            )
        file = self._create_run_folder(trial.trial_id) / HPARAMS
        # No name that TensorBoard would read
        partial = file.with_name("tensorboard.partial")
        partial.unlink(missing_ok=True)  # never followed, should it be a link
        append(partial, [Event(wall_time=trial.started, file_version=_VERSION), row])
        partial.replace(file)  # a reader sees the old content or the new

    def _report(self, event: events.Event) -> None:
        trial_id = event["trial_id"]
        epoch = event["epoch"]
        metrics = event["metrics"]
        scalars = {
            build_tag(name, self._metric): value for name, value in metrics.items()
        }
        best = self._history.trials[trial_id].best
        if self._metric in metrics and best is not None:
            scalars[_clean(f"best/{self._metric}")] = best.value
        begin = (
            []
            if trial_id in self._files
            else self._begin(trial_id, epoch, event["time"])
        )
        # A float beyond 32 bits becomes infinite, as in every event file
        values = [{"tag": tag, "simple_value": value} for tag, value in scalars.items()]
        report = Event(wall_time=event["time"], step=epoch, summary={"value": values})
        append(self._files[trial_id], [*begin, report])

    def _begin(self, trial_id: str, epoch: int, time: float) -> list[Event]:
        """Choose the trial's file; the records before the first report of this process."""
        run = self._create_run_folder(trial_id)
        files = {path.name for path in run.iterdir() if path.name.startswith(PREFIX)}
        # Readers take a run's files in order of their names
        file = run / f"{PREFIX}{int(time):010}.{socket.gethostname()}"
        records = (
            [] if file.exists() else [Event(wall_time=time, file_version=_VERSION)]
        )
        if files - {HPARAMS}:
            # Removes points from this step on: an earlier run may have got further than its journal
            records.append(
                Event(wall_time=time, step=epoch, session_log={"status": "START"})
            )
        self._files[trial_id] = file
        return records

    def _create_run_folder(self, trial_id: str) -> Path:
        run = find_logdir(self._folder) / trial_id
        create_folder(run, below=self._folder)
        return run


def find_logdir(folder: Path) -> Path:
    """The logdir of the experiment in `folder`: a run for each trial."""
    return folder / "trials"


def build_tag(metric: str, objective: str) -> str:
    """The tag of a reported metric.

    >>> [build_tag(m, "val_accuracy") for m in ("train_loss", "val_accuracy", "lr", "epoch_s")]
    ['train/loss', 'val/accuracy', 'train/lr', 'system/epoch_s']
    >>> build_tag("accuracy", "accuracy"), build_tag("accuracy", "loss")
    ('objective/accuracy', 'metric/accuracy')
    """
    for split in ("train", "val"):
        if metric.startswith(f"{split}_"):
            return _clean(f"{split}/{metric.removeprefix(f'{split}_')}")
    if metric == objective:
        group = "objective"
    elif metric == "lr":
        group = "train"
    else:
        group = "system" if metric in _OF_THE_SYSTEM else "metric"
    return _clean(f"{group}/{metric}")


def find_text_columns(space: Space) -> frozenset[str]:
    """The hyperparameters, by dotted name, that HPARAMS shows as text.

    TensorBoard filters a column by values of one type. So a column that may have values of several
    types has text alone, as has one of a choice between lists.
    """
    types: dict[str, set[type]] = {}
    for position, value in walk(space):
        for option in value.values if isinstance(value, Choice) else ():
            if not isinstance(option, Mapping):  # a branch has columns of its own
                kind = (
                    bool
                    if isinstance(option, bool)
                    else float
                    if is_number(option)
                    else str
                )
                types.setdefault(position.path, set()).add(kind)
    return frozenset(
        name for name, kinds in types.items() if len(kinds) > 1 or str in kinds
    )


def build_hparams_row(
    config: Mapping[str, Any], status: str, texts: frozenset[str]
) -> dict[str, str | bool | float]:
    """A trial's cells in the HPARAMS tab, by column. texts: the columns that have text alone."""
    row: dict[str, str | bool | float] = {}
    for name, value in flatten(config, ".").items():
        if isinstance(value, bool | int | float) and name not in texts:
            row[name] = value
        else:
            text = json.dumps(value) if isinstance(value, list | tuple) else str(value)
            row[name] = clean_text(text)
    return {**row, "trial_status" if "status" in row else "status": status}


def _clean(tag: str) -> str:
    return _NOT_IN_A_TAG.sub("_", tag)


def append(path: Path, records: list[Event]) -> None:
    """Append the records to the file by one write; the file is created if it is missing."""
    writer = RecordWriter(f"{_APPENDING}:{path}")
    for record in records:
        writer.write(record.SerializeToString())
    writer.close()


def _open_to_append(url: str) -> BinaryIO:
    path = Path(url.removeprefix(f"{_APPENDING}:"))
    descriptor = open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    return os.fdopen(descriptor, "ab", buffering=_LARGEST_WRITE)


register_writer_factory(_APPENDING, SimpleNamespace(open=_open_to_append))
