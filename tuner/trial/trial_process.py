"""The process that runs a trial's code, and the folder that the trial works in.

Trials cannot overwrite each other's files by relative paths. Files in the directory where the
search was started need a path from there (`tuner.start_dir`). A trial's log.txt has the output of
its process and its children, capped at each epoch.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import io
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TextIO

from tuner.errors import StorageError, translate_error
from tuner.experiment.files import open_plain, seek_tail
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import is_locked
from tuner.places import format_path
from tuner.spec.loading import is_learner, load_trainable
from tuner.streams import Lossy
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.directories import START_DIR, TRIAL_DIR
from tuner.trial.failures import Failure
from tuner.trial.gpu_memory import claim_gpu
from tuner.trial.gpus import take
from tuner.trial.guard import Children
from tuner.trial.memory import measure_held_mib, release_memory
from tuner.wording import shorten

BOUND_MIB = 512.0  # that a process may keep of its earlier trials
# Failures that may leave anything behind; a NaN leaves nothing
RAISED = ("exception", "oom")
# The attribute of a trainable that is not to work in the folder
STAYS = "stays_in_start_dir"
LIMIT = 1 << 20  # bytes of a log
_TAIL_BYTES = 4096  # of a log, in which its last line is looked for
_LONGEST_LINE = 120  # characters of a log's line that is shown
_NO_DEVICE = "its device cannot be used any more"
GAP = b"\n[... the middle of the log is left out ...]\n"


class WorkerReplacedError(RuntimeError):
    """Ends a worker's process that cannot run the next trial, which then goes elsewhere."""


def is_recycled(error: BaseException | None) -> bool:
    """Whether a trial ended only because its process was not to be used again."""
    return isinstance(getattr(error, "cause", error), WorkerReplacedError)


def find_reuse_fault(failure: Failure | None) -> str | None:
    """Why a process cannot run another trial after a failure, or None."""
    if failure is not None and failure.poisoned:
        return _NO_DEVICE
    if failure is not None and failure.kind in RAISED:
        return f"a trial failed in it ({failure.kind})"
    return None


class Leftovers:
    """What a process keeps from its trials.

    grown_mib: MiB, at least 0, beyond what it kept after the first trial. Imports, data and the
    allocator's reserves are made once, in the first trial.
    """

    def __init__(self, held: Callable[[], float] = measure_held_mib) -> None:
        self.grown_mib = 0.0
        self._held = held
        self._first_mib: float | None = None
        self._put_back: Callable[[], None] | None = None
        self._environment: dict[str, str] | None = None
        self.children = Children()

    def begin(self) -> None:
        """Note the process's state once the trial's modules are imported, before it begins."""
        self._environment = dict(os.environ)
        self.children.begin()
        if "torch" in sys.modules:
            from tuner.trial.torch_compat import remember_numerics

            self._put_back = remember_numerics()

    def clear(self) -> str | None:
        """Undo what the trial has left; returns why the process should not run another, or None."""
        if self._put_back is not None:
            self._put_back()
        if self._environment is not None:
            for name in os.environ.keys() - self._environment.keys():
                del os.environ[name]
            os.environ.update(self._environment)
        reason = None
        try:
            if "torch" in sys.modules:
                from tuner.trial.torch_compat import clear_compiled

                clear_compiled()
            release_memory()
        except RuntimeError:  # after some errors every call to the device fails
            reason = _NO_DEVICE
        ended = self.children.end()
        now = self._held()
        if self._first_mib is None:
            self._first_mib = now
            # What is there now stays. Later collections pass over it; else each would take 0.2 s
            # between two short trials
            gc.freeze()
        self.grown_mib = max(0.0, now - self._first_mib)
        if reason is None and ended:  # the trial's modules may still rely on them
            reason = f"a trial left {ended} process{'es' * (ended > 1)} running"
        elif reason is None and self.grown_mib > BOUND_MIB:
            reason = f"it has kept {self.grown_mib:.0f} MiB of earlier trials"
        return reason


class TrialProcess:
    """A process that runs one trial after another, each in a folder of its own."""

    def __init__(self, context: TrialContext) -> None:
        # Whatever is compiled here: torch would start a process for each CPU of the machine
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(context.threads))
        # Before a user's module looks for them as it is imported
        take(context.resources.gpus)
        self._context = context
        self._folder: Path | None = None
        self._leftovers = Leftovers()
        self.children = self._leftovers.children

    def begin(self, assignment: Assignment) -> Any:
        """Go to the trial's folder, and return the trainable.

        Its module is imported in the start directory; its effects stay for all trials. Raises the
        errors of the module, StorageError, and NoGpuError if a reserved GPU is missing.
        """
        trainable = load_trainable(self._context.trainable)
        claim_gpu(self._context.resources.gpus, through_torch=is_learner(trainable))
        self._leftovers.begin()
        self._start, self._folder = (
            Path.cwd(),
            self._context.locate_files(assignment.trial_id),
        )
        os.environ |= {START_DIR: str(self._start), TRIAL_DIR: str(self._folder)}
        if not getattr(trainable, STAYS, False):
            with translate_error(
                StorageError, f"cannot write {format_path(self._folder)}", of=OSError
            ):
                ExperimentFolder(self._context.folder).create_folder(self._folder)
                os.chdir(self._folder)
        return trainable

    def end(self) -> str | None:
        """Undo what the trial has changed; returns why this process is not to run another."""
        folder = self._folder
        self._folder = None
        if folder is not None:
            with suppress(FileNotFoundError):  # removed meanwhile
                os.chdir(self._start)
            with suppress(OSError):  # not empty, or of another rank that has removed it
                folder.rmdir()
        reason = self._leftovers.clear()
        if folder is not None:
            self._upload(folder)
        return reason

    def _upload(self, folder: Path) -> None:
        """Upload the trial's files to an object store, unless the driver does, on its machine."""
        experiment = ExperimentFolder(self._context.folder)
        if experiment.is_remote and folder.is_dir() and not is_locked(experiment.path):
            try:
                experiment.upload(folder)
            except OSError as error:
                print(f"the files of this trial stay in {folder}: {error.strerror}")


class TrialLog:
    """Within it, all that reaches file descriptors 1 and 2 goes to the experiment's file `name`.

    That is what Python, C code and child processes print, and the traceback of a crash. The file
    is appended to, without a buffer that a kill could lose. For an experiment in an object store
    it is uploaded when the trial fails or ends. Raises StorageError where it cannot be opened.
    """

    def __init__(self, experiment: Path, name: str) -> None:
        self._experiment = ExperimentFolder(experiment)
        self._name = name
        self._path = experiment / name

    def fileno(self) -> int:
        """The file's descriptor, until the context ends."""
        return self._file

    def cap(self, limit: int = LIMIT) -> None:
        """Write out what is buffered, and cut the middle of a file of more than `limit` bytes."""
        _flush()
        with suppress(OSError):  # a trial does not fail for want of its log
            clip_log(self._path, limit)

    def upload(self) -> None:
        """Cap the log, and upload it to the experiment's object store, if it has one."""
        self.cap()
        try:
            self._experiment.upload(self._path)
        except OSError as error:
            print(f"this log stays in {self._path}: {error.strerror}")

    def __enter__(self) -> Self:
        with translate_error(
            StorageError, f"cannot write {format_path(self._path)}", of=OSError
        ):
            # What was written before, on any machine
            self._experiment.fetch(self._name)
            self._experiment.create_folder(self._path.parent)
            self._file = open_plain(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _flush()
        self._before = os.dup(1), os.dup(2)
        self._streams = sys.stdout, sys.stderr
        for fd in (1, 2):
            os.dup2(self._file, fd)
        sys.stdout = _open_stream(1)
        sys.stderr = _open_stream(2)
        faulthandler.enable(self._file)
        return self

    def __exit__(self, *exception: object) -> None:
        _flush()
        sys.stdout, sys.stderr = self._streams
        for fd, before in enumerate(self._before, start=1):
            os.dup2(before, fd)
            os.close(before)
        faulthandler.enable(2)
        self.upload()
        os.close(self._file)


def read_latest_output(
    experiment: Path, trial_ids: Iterable[str], *, since: float
) -> str | None:
    """The last line of the newest of these trials' logs, if it is newer than the time `since`."""
    logs = [experiment / "trials" / trial_id / "log.txt" for trial_id in trial_ids]
    with suppress(OSError, ValueError):  # ValueError: there is no log yet
        newest = max(filter(Path.is_file, logs), key=lambda path: path.stat().st_mtime)
        if newest.stat().st_mtime >= since:
            with newest.open("rb") as file:
                seek_tail(file, _TAIL_BYTES)
                text = file.read().decode(errors="replace").replace("\r", "\n").rstrip()
            if line := shorten(text.rpartition("\n")[2], _LONGEST_LINE):
                return f"trial {newest.parent.name}: {line}"
    return None


def clip_log(path: Path, limit: int) -> None:
    """Cut the middle out of a file of more than `limit` bytes.

    The first half and the last quarter of `limit` stay, with GAP between them. The end is copied
    before the file is truncated, so a kill loses none of it.
    """
    if (size := path.stat().st_size) <= limit:
        return
    first = limit // 2
    last = limit // 4
    with path.open("r+b", buffering=0) as file:
        text = GAP + os.pread(file.fileno(), last, size - last)
        # In place, which works on a full disk, too
        os.pwrite(file.fileno(), text, first)
        os.ftruncate(file.fileno(), first + len(text))


def _open_stream(fd: int) -> TextIO:
    """A line-buffered stream of text to `fd`, which accepts half a surrogate and a full disk."""
    raw = io.BufferedWriter(Lossy(fd, "wb", closefd=False))
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the trial may have closed it
            stream.flush()
    ctypes.CDLL(None).fflush(None)
