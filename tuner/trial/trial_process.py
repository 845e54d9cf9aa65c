"""The process that a trial's own code runs in, and the folder of the trial that it works in.

What one trial writes by a relative path another cannot overwrite. A file where the search was
started has to be named from there; the error of a trial that misses such a file says so.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuner.errors import StorageError, translate_error
from tuner.experiment.folder import ExperimentFolder
from tuner.places import START_DIR, TRIAL_DIR, shown
from tuner.spec.loading import is_learner, load_trainable
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.gpus import claim, take
from tuner.trial.recycling import Leftovers

STAYS = "stays_in_start_dir"  # the attribute of a trainable that is not to work in the folder


class WorkingDirectory:
    """The working directory of this process, and the folder of the trial that it is in."""

    def __init__(self, experiment: Path) -> None:
        self._experiment = ExperimentFolder(experiment)
        self._folder: Path | None = None
        self._start = Path()

    def enter(self, folder: Path, *, stays: bool = False) -> None:
        """Begin to work in `folder`, which is made; or only name it, for a trial that `stays`.

        Raises StorageError where it cannot be made.
        """
        self._start, self._folder = Path.cwd(), folder
        os.environ |= {START_DIR: str(self._start), TRIAL_DIR: str(folder)}
        if stays:
            return
        with translate_error(StorageError, f"cannot write {shown(folder)}", of=OSError):
            self._experiment.make_folder(folder)
            os.chdir(folder)

    def leave(self) -> None:
        """Go back to where the search was started; a folder that nothing was written to goes."""
        if self._folder is None:
            return
        with suppress(FileNotFoundError):  # removed meanwhile
            os.chdir(self._start)
        with suppress(OSError):  # not empty, or of another rank that has removed it
            self._folder.rmdir()
        for name in (START_DIR, TRIAL_DIR):
            os.environ.pop(name, None)
        self._folder = None


def hint_of(error: BaseException, *, start: Path, here: Path) -> str:
    """What to add to the message of an error that came of a missed path; else nothing."""
    seen: BaseException | None = error
    while seen is not None:
        path = seen.filename if isinstance(seen, OSError) else None
        is_missed = (
            isinstance(path, str)
            and not os.path.isabs(path)
            and not os.path.lexists(here / path)
            and os.path.exists(start / path)
        )
        if is_missed:
            return (
                f"; {path!r} lies in {start}, where the search was started, and a trial works in a "
                f"folder of its own: name it as tuner.start_dir() / {path!r}"
            )
        seen = seen.__cause__ or seen.__context__
    return ""


_COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"


class TrialProcess:
    """This process, as one trial after the other trains in it."""

    def __init__(self, context: TrialContext) -> None:
        # Whatever is compiled here: torch would start a process for each CPU of the machine
        os.environ.setdefault(_COMPILE_THREADS, str(max(1, int(context.cpus))))
        take(context.gpus)  # before a user's module looks for them as it is imported
        self._context = context
        self._directory = WorkingDirectory(context.folder)
        self._leftovers = Leftovers()

    def begin(self, assignment: Assignment) -> Any:
        """Go to the trial's folder; the trainable. Raises what its module does, and StorageError.

        NoGpuError where what it reserved is not there.
        The module is imported where the search was started. What it sets then stays for all trials.
        """
        trainable = load_trainable(self._context.trainable)
        claim(self._context.gpus, through_torch=is_learner(trainable))
        self._leftovers.begin()
        stays = getattr(trainable, STAYS, False)
        self._directory.enter(self._context.files(assignment.trial_id), stays=stays)
        return trainable

    def guard(self) -> None:
        """Have what the trial starts ended with this process, however that dies."""
        self._leftovers.children.guard()

    def end(self) -> str | None:
        """Put back what the trial has changed; why this process should not train another trial."""
        self._directory.leave()
        return self._leftovers.clear()
