"""Protects a local experiment from power cuts.

Once a second a thread syncs new checkpoints, then the journal; only then does it remove the
checkpoints that they replace.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event

from tuner.errors import StorageError, TunerError, translate_error
from tuner.experiment.files import sync, sync_tree
from tuner.experiment.journal import Journal
from tuner.threads import run_in_thread

OnError = Callable[[TunerError], object]


class LocalSync:
    """For an experiment without an object store."""

    def __init__(self, folder: Path, *, every_s: float = 1.0) -> None:
        self._folder = folder
        self._every_s = every_s
        self._saved: SimpleQueue[Path] = SimpleQueue()
        self._replaced: SimpleQueue[Path] = SimpleQueue()

    @contextmanager
    def keep_synced(self, journal: Journal, on_error: OnError) -> Iterator[None]:
        """Sync in a thread, and completely at the end.

        on_error: called once if the disk fails or the folder is gone. Raises StorageError or
        JournalError if the disk fails at the end.
        """
        with run_in_thread(partial(self._keep_syncing, journal, on_error)):
            yield
        self.flush(journal)

    def await_journal(self) -> None:
        """Does nothing: what is journaled outlives this process, and soon a power cut."""

    def notify_saved(self, checkpoint: Path) -> None:
        """Sync `checkpoint`, a journaled file or folder, soon."""
        self._saved.put(checkpoint)

    def remove(self, folder: Path) -> None:
        """Remove a checkpoint's `folder` once those saved before are synced."""
        self._replaced.put(folder)

    def flush(self, journal: Journal) -> None:
        """Sync saved checkpoints and the journal, then remove replaced ones.

        Raises StorageError or JournalError, with nothing removed.
        """
        # First: what has replaced them is among the saved
        replaced = _pop_all(self._replaced)
        saved = [
            path
            for path in _pop_all(self._saved)
            if not {path, *path.parents} & set(replaced)
        ]
        folders = {
            folder
            for path in saved
            for folder in path.parents
            if self._folder in folder.parents
        }
        for path in saved:
            self._sync_path(sync_tree, path)
        for folder in sorted(folders):
            self._sync_path(sync, folder)
        journal.sync()
        for folder in replaced:
            # A search does not end if that fails
            shutil.rmtree(folder, ignore_errors=True)

    def _keep_syncing(self, journal: Journal, on_error: OnError, over: Event) -> None:
        while not over.wait(self._every_s):
            try:
                self.flush(journal)
                journal.check()
            except TunerError as error:
                on_error(error)
                return

    @staticmethod
    def _sync_path(to_disk: Callable[[Path], None], path: Path) -> None:
        with (
            translate_error(StorageError, f"cannot write {path}", of=OSError),
            # It was lost since, and its digest tells a resume
            suppress(FileNotFoundError),
        ):
            to_disk(path)


def _pop_all(queue: SimpleQueue[Path]) -> list[Path]:
    return [queue.get() for _ in range(queue.qsize())]
