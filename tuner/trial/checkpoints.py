"""The checkpoints of one trial, named by epoch: written whole, read without running code.

At a rung and at the end of a trial the checkpoint must exist. In between it only serves after a
kill: the trial waits for it if writing takes a tiny part of an epoch; otherwise a copy of the
state is written every few seconds while the trial trains. With every checkpoint the trial's best
epoch so far is journaled, too.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, StorageError, translate_error
from tuner.experiment.estimate import Curve
from tuner.experiment.files import compute_sha256
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.trials import CheckpointRecord
from tuner.places import format_path
from tuner.spec.sections import Objective
from tuner.trial.state import copy_to_host, find_state_fault

STATE_FILE = "state.pt"
PARTIAL_FILE = "state.partial"  # until it is whole
# Of torch, which names the class
_FOREIGN = re.compile(r"Unsupported global: GLOBAL (\S+)")


class CheckpointStore:
    """The folder trials/TRIAL_ID/checkpoints of an experiment.

    A Learner's state is one file, EPOCH/state.pt. The files of other trainables are the directory
    EPOCH. The driver forces them to the disk; a checkpoint that a power cut tears before that does
    not match its sha256. In an object store they are uploaded at once, and then removed here.
    """

    def __init__(self, experiment: Path, trial_id: str) -> None:
        self._experiment = ExperimentFolder(experiment)
        self._folder = experiment / "trials" / trial_id / "checkpoints"
        self._fetched: list[Path] = []
        self._has_loaded = False  # a state that this process has saved

    def save(self, epoch: int, state: dict[str, Any]) -> CheckpointRecord:
        """Write a Learner's `state`. The file gets its name once it is complete.

        The first state is loaded again at once: after a kill it would be too late to learn that it
        cannot be loaded. Raises CheckpointError if it cannot, and StorageError if the disk fails.
        """
        from tuner.trial.torch_compat import save

        def write(partial: Path) -> None:
            partial.unlink(missing_ok=True)  # of a process that was killed
            with partial.open("xb") as file:
                save(state, file)
            if not self._has_loaded:
                load_state(partial, None, what="the state_dict() in")
                self._has_loaded = True

        path = self._folder / str(epoch) / STATE_FILE
        return self._publish(epoch, path, path.with_name(PARTIAL_FILE), write)

    def save_folder(
        self, epoch: int, write: Callable[[Path], object]
    ) -> CheckpointRecord:
        """Write a checkpoint's folder by `write(folder)`; raises as `save` does."""
        path = self._folder / str(epoch)
        partial = path.with_name(f"{epoch}.partial")
        with translate_error(
            StorageError, f"cannot write {format_path(path)}", of=OSError
        ):
            # Before anything is removed there
            self._experiment.create_folder(self._folder)
        for stale in (partial, path):
            shutil.rmtree(stale, ignore_errors=True)
        return self._publish(epoch, path, partial, write)

    def fetch(self, path: str) -> Path:
        """The local path of a checkpoint, until `release`. Raises CheckpointError."""
        self._fetched.append(self._experiment.path / path)
        location = self._experiment.locate(path)
        with translate_error(CheckpointError, f"cannot fetch {location}", of=OSError):
            return self._experiment.fetch(path)

    def release(self) -> None:
        """Drop the local copies of fetched checkpoints."""
        while self._fetched:
            self._experiment.drop_copy(self._fetched.pop())

    def _publish(
        self, epoch: int, path: Path, partial: Path, write: Callable[[Path], object]
    ) -> CheckpointRecord:
        with translate_error(
            StorageError, f"cannot write {format_path(path)}", of=OSError
        ):
            self._experiment.create_folder(path.parent)
            write(partial)
            digest = compute_sha256(partial)
            os.replace(partial, path)
            self._experiment.upload(path)
            self._experiment.drop_copy(path)
        return CheckpointRecord(
            epoch, path.relative_to(self._experiment.path).as_posix(), digest
        )


def load_state(
    path: Path, sha256: str | None, *, what: str = "checkpoint"
) -> dict[str, Any]:
    """Load the state in the file `path` on the CPU, without running code from the file.

    what: the user's word for the file. Raises CheckpointError if the file is missing, does not
    match `sha256` (None: not compared), cannot be loaded, or would take far more memory than its
    size.
    """
    import torch

    if not path.is_file():
        raise CheckpointError(f"{what} {path} is missing")
    if sha256 is not None and compute_sha256(path) != sha256:
        raise CheckpointError(
            f"{what} {path} is damaged: its sha256 is not the journal's"
        )
    try:
        _check_archive(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if fault := find_state_fault(state, os.path.getsize(path)):
            raise ValueError(fault)
    except pickle.UnpicklingError as error:
        # torch's advice is to let the file run its code
        foreign = _FOREIGN.search(str(error))
        reason = "it holds more than tensors, numbers, text, None, lists and dicts"
        reason += f": {foreign[1]}" if foreign else ", or is damaged"
        raise CheckpointError(f"{what} {path} cannot be loaded: {reason}") from error
    except Exception as error:  # of any kind: torch's reader checks little
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{what} {path} cannot be loaded: {reason}") from error
    if not isinstance(state, dict):
        raise CheckpointError(
            f"{what} {path} holds {type(state).__name__}, not a state dict"
        )
    return state


def _check_archive(path: Path) -> None:
    """Raise ValueError for an archive that unpacks to more than its size, BadZipFile for damage.

    torch.save compresses nothing; a compressed record could stand for a thousand times its size.
    torch's older format, no zip file, says how much follows, and fails where that is missing.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(record.file_size for record in archive.infolist())
        if unpacked > os.path.getsize(path):
            raise ValueError("it unpacks to more than it holds")


class Save(StrEnum):
    """How the state after an epoch is saved."""

    NOW = "now"  # written before the epoch is reported
    BESIDE = "beside"  # copied, and written while the trial trains on
    HOLD = "hold"  # copied, and written with the next one that is


@dataclass(frozen=True, slots=True)
class SaveRules:
    """The rules for all trials of a search.

    every_s: seconds between two checkpoints that are written beside training. rungs: epochs after
    which a trial may be stopped. short_share: of an epoch; a write that is shorter is not worth a
    thread.
    """

    every_s: float = 5.0
    rungs: frozenset[int] = frozenset()
    short_share: float = 0.02


class SavePolicy:
    """The choices for one trial, epoch by epoch.

    reported: the last epoch whose report is journaled when the trial begins. Epochs up to it run
    again, and the checkpoint of each is written at once.
    """

    def __init__(
        self, rules: SaveRules, objective: Objective, *, reported: int = 0
    ) -> None:
        self._rules = rules
        self._objective = objective
        self._reported = reported
        # Of the reports that count, or of all until one does
        self._curve = Curve(objective)
        self._has_counted = False
        self._write_s = math.inf  # how long the last one took that was waited for
        self._began = -math.inf  # when the last one was begun

    def is_best(self, epoch: int, metrics: Mapping[str, Any]) -> bool:
        """Record the epoch's report; returns whether it is the trial's best so far.

        A report that can be the trial's best one is better than any that cannot.
        """
        objective = self._objective
        counts = objective.can_be_best(epoch, metrics)
        if counts and not self._has_counted:
            self._curve = Curve(objective)
            self._has_counted = True
        if not counts and self._has_counted:
            return False
        return self._curve.add(epoch, objective.compute_loss(metrics[objective.metric]))

    def choose(
        self,
        epoch: int,
        *,
        is_best: bool,
        is_last: bool,
        epoch_s: float,
        is_writing: bool,
        now: float,
    ) -> Save | None:
        """How to save the state after `epoch`, or None for not at all.

        is_last: whether the trial ends with this epoch. epoch_s: seconds of training. is_writing:
        whether an earlier state is still being written. now: seconds of a monotonic clock.
        """
        is_cheap = self._write_s <= self._rules.short_share * epoch_s
        is_decided = is_last or epoch in self._rules.rungs or epoch <= self._reported
        if is_cheap or is_decided or self._write_s == math.inf:
            self._began = now
            return Save.NOW
        if not is_writing and now - self._began >= self._rules.every_s:
            self._began = now
            return Save.BESIDE
        return Save.HOLD if is_best else None

    def record_wait(self, seconds: float) -> None:
        self._write_s = seconds


State = dict[str, Any]


class CheckpointWriter:
    """Writes the checkpoints of one trial to its `store`.

    The best epoch is held in memory and written with the next checkpoint, so there are at most
    three copies of a state. An error of its thread is raised by the next call. copy: makes a copy
    of a state that no later epoch changes.
    """

    def __init__(
        self, store: CheckpointStore, copy: Callable[[State], State] = copy_to_host
    ) -> None:
        self._store = store
        self._copy = copy
        self._held: tuple[int, State] | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[list[CheckpointRecord]] | None = None

    def save(
        self, epoch: int, state: State, how: Save, *, is_best: bool
    ) -> list[CheckpointRecord]:
        """Save `state` as `how` says; returns the checkpoints written since the last call.

        The oldest checkpoint comes first. is_best: whether this is the trial's best epoch, so that
        the held state is dropped. A state that cannot be copied is written at once. Raises as
        `CheckpointStore.save` does.
        """
        if is_best:
            self._held = None
        copy = None
        if how is not Save.NOW:
            with suppress(Exception):
                # No room, or a user's value: saving it raises the reason
                copy = self._copy(state)
        if copy is None:
            done = self.collect_written(wait=True)
            self._begin(
                self._take_held(epoch)
            )  # two threads take half the time where cores are free
            newest = self._store.save(epoch, state)
            return [*done, *self.collect_written(wait=True), newest]
        done = self.collect_written(wait=how is Save.BESIDE)
        if how is Save.HOLD:
            self._held = (epoch, copy)
        else:
            self._begin([*self._take_held(epoch), (epoch, copy)])
        return done

    def collect_written(self, *, wait: bool = False) -> list[CheckpointRecord]:
        """The checkpoints written by its thread since the last call; wait: until it is done."""
        if self._writing is None or not (wait or self._writing.done()):
            return []
        writing = self._writing
        self._writing = None
        return writing.result()

    def close(self) -> None:
        """Wait for the thread to end. The held state and an error of the thread are dropped."""
        self._held = self._writing = None
        self._threads.shutdown()

    def _take_held(self, epoch: int) -> list[tuple[int, State]]:
        """Take the held state, unless it is that of `epoch`, which is written anyway."""
        held = self._held
        self._held = None
        return [held] if held and held[0] != epoch else []

    def _begin(self, states: list[tuple[int, State]]) -> None:
        if states:
            self._writing = self._threads.submit(
                lambda: [self._store.save(epoch, state) for epoch, state in states]
            )
