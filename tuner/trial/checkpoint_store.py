"""The checkpoints of one trial, named by epoch: written whole, read without running code."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, StorageError
from tuner.places import shown
from tuner.record.digest import sha256_of
from tuner.record.remote import mirror
from tuner.trial.state_limits import fault_of_archive, fault_of_state

STATE_FILE = "state.pt"


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint as the journal has it: `path` is relative to the experiment's folder."""

    epoch: int
    path: str
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class CheckpointStore:
    """The folder trials/TRIAL_ID/checkpoints of an experiment.

    A learner's state is one file, EPOCH/state.pt; what a plain function saved is the directory
    EPOCH. Neither is synced to the disk: one that a power cut tears does not match its sha256.
    Of an experiment in an object store it is handed over to that as it is written, and not kept.
    """

    def __init__(self, experiment: Path, trial_id: str) -> None:
        self._experiment = experiment
        self._folder = experiment / "trials" / trial_id / "checkpoints"
        self._brought: list[Path] = []

    def save(self, epoch: int, state: dict[str, Any]) -> Saved:
        """Write a learner's `state`; it appears under its name only when it is whole.

        Raises StorageError where the disk does not take it.
        """
        import torch

        path = self._folder / str(epoch) / STATE_FILE
        partial = path.with_suffix(".partial")
        with _storing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:  # of a path, torch would not say why it failed
                try:
                    torch.save(state, file)
                except RuntimeError as error:  # torch covers what the disk said
                    if isinstance(error.__context__, OSError):
                        raise error.__context__ from None
                    raise
            digest = sha256_of(partial)
            os.replace(partial, path)
            mirror.hand_over(path)
        mirror.give_up(path)
        return Saved(epoch, path.relative_to(self._experiment).as_posix(), digest)

    def adopt(self, epoch: int, directory: Path) -> Saved:
        """Take over the files of a `directory` that a plain function saved; raises as `save`."""
        path = self._folder / str(epoch)
        partial = path.with_name(f"{epoch}.partial")
        for stale in (partial, path):
            shutil.rmtree(stale, ignore_errors=True)
        with _storing(path):
            shutil.copytree(directory, partial)
            digest = sha256_of(partial)
            os.replace(partial, path)
            mirror.hand_over(path)
        mirror.give_up(path)
        return Saved(epoch, path.relative_to(self._experiment).as_posix(), digest)

    def bring(self, path: str) -> Path:
        """Where a checkpoint's `path` of the journal is here, until `let_go`; it may be missing.

        Raises CheckpointError where it lies in a store that fails.
        """
        here = self._experiment / path
        self._brought.append(here)
        try:
            mirror.bring(here)
        except OSError as error:
            raise CheckpointError(f"cannot fetch {shown(here)}: {error.strerror}") from error
        return here

    def let_go(self) -> None:
        """What was brought is not needed any more."""
        while self._brought:
            mirror.give_up(self._brought.pop())


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except shutil.Error as error:  # of several files: source, target and reason of each
        raise StorageError(f"cannot write {shown(path)}: {error.args[0][0][2]}") from error
    except OSError as error:
        raise StorageError(f"cannot write {shown(path)}: {error.strerror}") from error


def load_state(path: Path, sha256: str | None, *, what: str = "checkpoint") -> dict[str, Any]:
    """The state in the file `path`, on the CPU, loaded without running any code of its own.

    what: the user's word for it. Raises CheckpointError where it is missing, does not match
    `sha256` (None: not compared), cannot be loaded, or would take far more memory than its size.
    """
    import torch

    if not path.is_file():
        raise CheckpointError(f"{what} {path} is missing")
    if sha256 is not None and sha256_of(path) != sha256:
        raise CheckpointError(f"{what} {path} is damaged: its sha256 is not the journal's")
    try:
        if fault := fault_of_archive(path):
            raise ValueError(fault)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if fault := fault_of_state(state, os.path.getsize(path)):
            raise ValueError(fault)
    except pickle.UnpicklingError as error:  # whose advice is to let the file run its code
        reason = "it holds more than tensors and plain values, or is damaged"
        raise CheckpointError(f"{what} {path} cannot be loaded: {reason}") from error
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{what} {path} cannot be loaded: {reason}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{what} {path} holds {type(state).__name__}, not a state dict")
    return state
