"""Syncs an experiment's object store while a driver searches.

The journal follows within seconds; replaced checkpoints are removed after it, other files follow
every half a minute and at the end. Trials upload their checkpoints and logs.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING

from tuner.errors import JournalError, StorageError, TunerError
from tuner.experiment.files import JOURNAL, LABELS, is_uploadable
from tuner.experiment.journal import Journal
from tuner.experiment.remote.lease import BEAT_S, Lease, LeaseLostError
from tuner.experiment.remote.objects import PATIENCE_S, retry
from tuner.experiment.remote.segments import Uploader
from tuner.threads import run_in_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

_log = logging.getLogger(__name__)

_THREADS = 8  # that upload and remove what is not the journal

OnError = Callable[[TunerError], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds between two beats, two uploads of the journal, and two sweeps over other files.

    patience_s: with a store that fails.
    """

    beat_s: float = BEAT_S
    journal_s: float = 1.0
    sweep_s: float = 30.0
    patience_s: float = PATIENCE_S


class RemoteSync:
    """For an experiment in an object store. upload: uploads a file of the copy `folder`."""

    def __init__(
        self,
        folder: Path,
        lease: Lease,
        upload: Callable[[Path], object],
        timing: Timing | None = None,
    ) -> None:
        self._folder = folder
        self._timing = timing or Timing()
        self._upload = upload
        self._lease = lease
        self._objects = lease.objects
        self._uploader = Uploader(lease.objects, folder / JOURNAL, lease.generation)
        self._removed: SimpleQueue[Path] = SimpleQueue()
        # Size and mtime of other files
        self._uploaded: dict[Path, tuple[int, int]] = {}
        self._swept_at = time.monotonic()
        self._sweeping: Future[None] | None = None
        self._is_running = self._notified = self.is_lost = False

    @contextmanager
    def keep_synced(self, journal: Journal, on_error: OnError) -> Iterator[None]:
        """Sync in threads, and completely at the end.

        on_error: called once if another driver took over, the store failed for a minute, or the
        folder is gone. Raises StorageError if the store fails at the start or at the end.
        """
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="store") as self._threads:
            self._retry(self._uploader.upload)
            self._retry(self._uploader.remove_older)
            self._journal = journal
            self._is_running = True
            notify = partial(self._notify, on_error)
            beats = partial(
                self._repeat, self._lease.renew, self._timing.beat_s, notify
            )
            follows = partial(
                self._repeat, self._sync_once, self._timing.journal_s, notify
            )
            try:
                # In two threads, since a beat must not wait for a long upload
                with run_in_thread(beats), run_in_thread(follows):
                    yield
            except BaseException:
                try:
                    self._finish()
                except TunerError as error:
                    _log.warning("%s", error)
                raise
            self._finish()

    def await_journal(self) -> None:
        """Return once the store has what is journaled by now; callable from any thread.

        Raises StorageError if the store fails for a minute, LeaseLostError after another driver has
        taken over.
        """
        if self._is_running:
            self._retry(self._upload_journal)

    def notify_saved(self, checkpoint: Path) -> None:
        """Does nothing: its trial has uploaded it."""

    def remove(self, folder: Path) -> None:
        """Remove a checkpoint's `folder`: here now, in the store once its journal has a newer."""
        shutil.rmtree(folder, ignore_errors=True)
        self._removed.put(folder)

    def _repeat(
        self, do: Callable[[], object], every_s: float, notify: OnError, over: Event
    ) -> None:
        """Do it again and again until `over`; notify and end if it fails for good."""
        worked_at = time.monotonic()
        while not over.wait(every_s):
            try:
                do()
                worked_at = time.monotonic()
            except (LeaseLostError, JournalError) as error:
                self.is_lost = self.is_lost or isinstance(error, LeaseLostError)
                notify(error)
                return
            except OSError as error:
                if time.monotonic() - worked_at >= self._timing.patience_s:
                    notify(self._build_error(error))
                    return

    def _notify(self, on_error: OnError, error: TunerError) -> None:
        if not self._notified:
            self._notified = True
            on_error(error)

    def _sync_once(self) -> None:
        older = self._removed.qsize()  # than what is uploaded now
        self._journal.check()
        self._uploader.upload()
        self._uploader.merge()
        for _ in range(older):
            self._threads.submit(self._remove, self._removed.get())
        idle = self._sweeping is None or self._sweeping.done()
        if idle and time.monotonic() - self._swept_at >= self._timing.sweep_s:
            self._swept_at = time.monotonic()
            self._sweeping = self._threads.submit(self._sweep)

    def _upload_journal(self) -> None:
        self._uploader.upload()
        self._lease.check()  # the next driver may have begun without these lines

    def _remove(self, folder: Path) -> None:
        name = folder.relative_to(self._folder).as_posix()
        try:
            self._objects.remove(name)
        except OSError as error:
            _log.warning(
                "cannot remove %s/%s: %s", self._objects.url, name, error.strerror
            )

    def _sweep(self) -> None:
        """Upload the files that are new or have changed, except for those of trials."""
        for path in _find_other_files(self._folder):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            state = status.st_size, status.st_mtime_ns
            if self._uploaded.get(path) != state:
                self._upload(path)
                self._uploaded[path] = state

    def _finish(self) -> None:
        if self.is_lost:
            return
        if self._sweeping:
            from concurrent.futures import wait

            wait([self._sweeping])
        self._retry(self._lease.renew)
        self._retry(self._sync_once)
        self._retry(self._sweep)
        self._is_running = False

    def _retry(self, do: Callable[[], object]) -> None:
        try:
            retry(do, patience_s=self._timing.patience_s)
        except OSError as error:
            raise self._build_error(error) from error

    def _build_error(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot write to {self._objects.url}: {error.strerror}; what it lacks is in "
            f"{self._folder}, and a resume on this machine uploads it"
        )


def _find_other_files(folder: Path) -> Iterator[Path]:
    """The plain files below `folder` that are neither the journal nor uploaded by trials."""
    for root, folders, names in os.walk(folder):
        match Path(root).relative_to(folder).parts:
            case ["trials", _, "files", *_]:  # all that a trial has written there
                pass
            case ["trials", _]:
                folders[:] = set(folders) - {"checkpoints"}
                names = [name for name in names if not fnmatch(name, "log*.txt")]
                names = [name for name in names if not name.endswith(".partial")]
            case _:
                folders[:] = [name for name in folders if name[0] != "."]
                # Labels may have been written elsewhere since
                names = [
                    name
                    for name in names
                    if name[0] != "." and name not in (JOURNAL, LABELS)
                ]
        for name in names:
            path = Path(root, name)
            if is_uploadable(path, folder):
                yield path
