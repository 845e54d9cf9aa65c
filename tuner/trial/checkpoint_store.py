"""The checkpoints of one trial, named by epoch: written whole, read without running code."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, StorageError, translate_error
from tuner.experiment.files import sha256_of
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.trials import CheckpointRecord
from tuner.places import shown
from tuner.trial.state import fault_of_state

STATE_FILE = "state.pt"
PARTIAL_FILE = "state.partial"  # until it is whole
_FOREIGN = re.compile(r"Unsupported global: GLOBAL (\S+)")  # of torch, which names the class


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

        path = self._folder / str(epoch) / STATE_FILE
        partial = path.with_name(PARTIAL_FILE)
        with _storing(path):
            self._experiment.make_folder(path.parent)
            with partial.open("wb") as file:
                save(state, file)
            if not self._has_loaded:
                load_state(partial, None, what="the state_dict() in")
                self._has_loaded = True
            return self._publish(epoch, partial, path, sha256_of(partial))

    def adopt(self, epoch: int, directory: Path) -> CheckpointRecord:
        """Copy the files of a `directory` that a plain function saved; raises as `save` does."""
        return self.fill(epoch, lambda folder: shutil.copytree(directory, folder))

    def fill(self, epoch: int, write: Callable[[Path], object]) -> CheckpointRecord:
        """Write a checkpoint's folder by `write(folder)`; raises as `save` does."""
        path = self._folder / str(epoch)
        partial = path.with_name(f"{epoch}.partial")
        for stale in (partial, path):
            shutil.rmtree(stale, ignore_errors=True)
        with _storing(path):
            self._experiment.make_folder(path.parent)
            write(partial)
            return self._publish(epoch, partial, path, sha256_of(partial))

    def fetch(self, path: str) -> Path:
        """The local path of the checkpoint at the journal's `path`, until `release`.

        It may be missing. Raises CheckpointError if an object store fails.
        """
        self._fetched.append(self._experiment.path / path)
        try:
            return self._experiment.fetch(path)
        except OSError as error:
            location = self._experiment.locate(path)
            raise CheckpointError(f"cannot fetch {location}: {error.strerror}") from error

    def release(self) -> None:
        """Drop the local copies of fetched checkpoints."""
        while self._fetched:
            self._experiment.drop_copy(self._fetched.pop())

    def _publish(self, epoch: int, partial: Path, path: Path, digest: str) -> CheckpointRecord:
        os.replace(partial, path)
        self._experiment.upload(path)
        self._experiment.drop_copy(path)
        return CheckpointRecord(epoch, path.relative_to(self._experiment.path).as_posix(), digest)


def _storing(path: Path) -> AbstractContextManager[None]:
    return translate_error(StorageError, f"cannot write {shown(path)}", of=OSError)


def load_state(path: Path, sha256: str | None, *, what: str = "checkpoint") -> dict[str, Any]:
    """Load the state in the file `path` on the CPU, without running code from the file.

    what: the user's word for the file. Raises CheckpointError if the file is missing, does not
    match `sha256` (None: not compared), cannot be loaded, or would take far more memory than its
    size.
    """
    import torch

    if not path.is_file():
        raise CheckpointError(f"{what} {path} is missing")
    if sha256 is not None and sha256_of(path) != sha256:
        raise CheckpointError(f"{what} {path} is damaged: its sha256 is not the journal's")
    try:
        _check_archive(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if fault := fault_of_state(state, os.path.getsize(path)):
            raise ValueError(fault)
    except pickle.UnpicklingError as error:  # torch's advice is to let the file run its code
        foreign = _FOREIGN.search(str(error))
        reason = "it holds more than tensors, numbers, text, None, lists and dicts"
        reason += f": {foreign[1]}" if foreign else ", or is damaged"
        raise CheckpointError(f"{what} {path} cannot be loaded: {reason}") from error
    except Exception as error:  # of any kind: torch's reader checks little
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{what} {path} cannot be loaded: {reason}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{what} {path} holds {type(state).__name__}, not a state dict")
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
