"""TensorBoard event files, written from events while the search runs.

The logdir is STORAGE/NAME/trials, so that a run is named by its trial's id. A point has the epoch
as its step and the event's time as its wall time. Tags: train/*, val/*, system/*, the objective
where its name says neither (objective/*), and best/METRIC, the trial's best value so far.

tensorboardX gives the protocol buffers and the checksums. Its SummaryWriter is not used: it holds
a file, a queue and a thread a trial. Here a report is one record, appended and let go, so that
thousands of paused trials cost no descriptor, and a kill tears no record of another report.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tuner.events import RESULT, Event
from tuner.history import TrialRecord
from tuner.selection import score

_log = logging.getLogger(__name__)
_PREFIX = "events.out.tfevents."
_VERSION = "brain.Event:2"
_NOT_IN_A_TAG = re.compile(r"[^-/\w.]")


class TensorBoardWriter:
    """An observer of events that writes the scalars of every trial of the experiment in `folder`.

    metric, mode: the objective. `earlier` are the trials of the runs before a resume. A disk that
    fails is logged once and ends the writing, not the search: the journal has it all.
    """

    def __init__(
        self, folder: Path, *, metric: str, mode: str, earlier: Mapping[str, TrialRecord]
    ) -> None:
        self._folder = folder
        self._metric = metric
        self._mode = mode
        self._best: dict[str, float] = {}
        self._files: dict[str, Path] = {}
        self._records = _Records()
        self._failed = False
        for trial in earlier.values():
            values = [value for _, value in trial.values(metric)]
            best = score(values, mode=mode, scope="best")
            if best is not None:
                self._best[trial.trial_id] = best

    def __call__(self, event: Event) -> None:
        """Take one event; only reports matter here."""
        if event["event"] == RESULT and not self._failed:
            try:
                self._write(event)
            except OSError as error:
                self._failed = True
                _log.warning("TensorBoard files are no longer written: %s", error)

    def _write(self, event: Event) -> None:
        trial_id, epoch, metrics = event["trial_id"], event["epoch"], event["metrics"]
        scalars = {tag_of(name, self._metric): value for name, value in metrics.items()}
        if self._metric in metrics:
            earlier = self._best.get(trial_id, metrics[self._metric])
            pick = min if self._mode == "min" else max
            self._best[trial_id] = pick(earlier, metrics[self._metric])
            scalars[_clean(f"best/{self._metric}")] = self._best[trial_id]
        data = b""
        if trial_id not in self._files:
            data = self._begin(trial_id, epoch, event["time"])
        data += self._records.scalars(scalars, step=epoch, time=event["time"])
        _append(self._files[trial_id], data)

    def _begin(self, trial_id: str, epoch: int, time: float) -> bytes:
        """Choose the trial's file; what must come before its first report of this process."""
        run = logdir(self._folder) / trial_id
        run.mkdir(parents=True, exist_ok=True)
        resumed = any(path.name.startswith(_PREFIX) for path in run.iterdir())
        # Readers take a run's files in order of name: by the second they were begun.
        file = run / f"{_PREFIX}{int(time):010}.{socket.gethostname()}"
        data = b"" if file.exists() else self._records.version(time=time)
        if resumed:
            # Takes back points from this step on, had the run before got further than its journal.
            data += self._records.restart(step=epoch, time=time)
        self._files[trial_id] = file
        return data


def logdir(folder: Path) -> Path:
    """What `tensorboard --logdir` shows of the experiment in `folder`: one run a trial."""
    return folder / "trials"


def serve(folder: Path, *, port: int = 6006) -> NoReturn:
    """Become TensorBoard on the experiment in `folder`, for this machine's browsers only."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir(folder))]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)  # so that signals and the exit code are its own


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


def _clean(tag: str) -> str:
    return _NOT_IN_A_TAG.sub("_", tag)


def _append(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


class _Records:
    """Makes the records of an event file: TFRecords of tensorboardX's Event messages."""

    def __init__(self) -> None:
        with _torch_kept_out():
            from tensorboardX.proto import event_pb2, summary_pb2
            from tensorboardX.record_writer import masked_crc32c
        self._event = event_pb2
        self._summary = summary_pb2
        self._checksum = masked_crc32c

    def version(self, *, time: float) -> bytes:
        """What a file begins with."""
        return self._record(self._event.Event(wall_time=time, file_version=_VERSION))

    def restart(self, *, step: int, time: float) -> bytes:
        """Tells readers that what was written of `step` and later is taken back."""
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        return self._record(self._event.Event(wall_time=time, step=step, session_log=start))

    def scalars(self, scalars: dict[str, float], *, step: int, time: float) -> bytes:
        """One report; a float beyond 32 bits becomes infinite, as in every event file."""
        values = [self._summary.Summary.Value(tag=t, simple_value=v) for t, v in scalars.items()]
        summary = self._summary.Summary(value=values)
        return self._record(self._event.Event(wall_time=time, step=step, summary=summary))

    def _record(self, event: Any) -> bytes:
        data: bytes = event.SerializeToString()
        header = struct.pack("<Q", len(data))
        checks = (struct.pack("<I", self._checksum(part)) for part in (header, data))
        return b"".join((header, next(checks), data, next(checks)))


@contextmanager
def _torch_kept_out() -> Iterator[None]:
    """Let an import go without torch, which it would take if it could but does not need.

    tensorboardX imports torch where it is installed, for embeddings and graphs: 1-2 s and 180 MB
    in a driver that trains nothing. Not for use while another thread imports torch.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # what makes `import torch` fail
    try:
        yield
    finally:
        del sys.modules["torch"]
