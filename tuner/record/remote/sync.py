"""What the driver of an experiment does for the store that it lies in, while it searches.

The journal is written here and brought to the store in order, a second or two behind. A checkpoint
is removed from the store only after the journal there has a newer one. Other files, TensorBoard's
among them, follow every half a minute and at the end; trials bring their own.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock

from tuner import background
from tuner.errors import StorageError, TunerError
from tuner.record.remote import mirror
from tuner.record.remote.lease import BEAT_S, Lease, LeaseLostError, take
from tuner.record.remote.objects import PATIENCE_S, patiently
from tuner.record.remote.segments import Uploader, fetch

_log = logging.getLogger(__name__)

_EVERY_S = 1.0  # the journal is brought
_SWEEP_S = 30.0  # the other files are looked at
_THREADS = 8  # that upload and remove what is not the journal

OnError = Callable[[TunerError], object]


class InPlace:
    """The upkeep of an experiment whose folder is its storage: there is nothing to bring."""

    @contextmanager
    def during(self, on_error: OnError) -> Iterator[None]:
        """Within it nothing is done."""
        yield

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove a checkpoint's `folder`; a search does not end because that fails."""
        shutil.rmtree(folder, ignore_errors=True)


class InStore:
    """The upkeep of the experiment of which `folder` is the mirror, and which `lease` holds."""

    def __init__(self, folder: Path, lease: Lease) -> None:
        self._folder = folder
        self._lease = lease
        self._objects = lease.objects
        self._uploader = Uploader(lease.objects, folder / mirror.JOURNAL, lease.generation)
        self._removed: SimpleQueue[Path] = SimpleQueue()
        self._brought: dict[Path, tuple[int, int]] = {}  # size and time of change, of other files
        self._swept_at = time.monotonic()
        self._sweeping: Future[None] | None = None
        self._telling, self._told = Lock(), False
        self.is_lost = False

    @contextmanager
    def during(self, on_error: OnError) -> Iterator[None]:
        """Within it the store follows; all that is here is there when it ends.

        on_error: told, once, that another driver has taken over, or that the store has failed for a
        minute. Raises StorageError where it fails at the beginning or at the end.
        """
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="store") as self._threads:
            self._now(self._uploader.bring)
            self._now(self._uploader.remove_older)
            told = partial(self._tell, on_error)
            beats = partial(self._keep_on, self._lease.renew, BEAT_S, told)
            follows = partial(self._keep_on, self._follow, _EVERY_S, told)
            try:
                # Apart, for a beat must not wait for an upload that takes long
                with background.running(beats), background.running(follows):
                    yield
            except BaseException:
                try:
                    self._end()
                except TunerError as error:
                    _log.warning("%s", error)
                raise
            self._end()

    def remove(self, folder: Path) -> None:
        """Remove a checkpoint's `folder`: here now, in the store once its journal has a newer."""
        InPlace.remove(folder)
        self._removed.put(folder)

    def _keep_on(
        self, do: Callable[[], object], every_s: float, tell: OnError, over: Event
    ) -> None:
        """Do it again and again until `over`; tell where it fails for good, and end."""
        failing_since: float | None = None
        while not over.wait(every_s):
            try:
                do()
                failing_since = None
            except LeaseLostError as error:
                self.is_lost = True
                tell(error)
                return
            except OSError as error:
                now = time.monotonic()
                failing_since = now if failing_since is None else failing_since
                if now - failing_since >= PATIENCE_S:
                    tell(self._failed(error))
                    return

    def _tell(self, on_error: OnError, error: TunerError) -> None:
        with self._telling:
            if not self._told:
                self._told = True
                on_error(error)

    def _follow(self) -> None:
        older = self._removed.qsize()  # than what is brought now
        self._uploader.bring()
        for _ in range(older):
            self._threads.submit(self._remove, self._removed.get())
        idle = self._sweeping is None or self._sweeping.done()
        if idle and time.monotonic() - self._swept_at >= _SWEEP_S:
            self._swept_at = time.monotonic()
            self._sweeping = self._threads.submit(self._sweep)

    def _remove(self, folder: Path) -> None:
        name = folder.relative_to(self._folder).as_posix()
        try:
            self._objects.remove(name)
        except OSError as error:
            _log.warning("%s/%s stays: %s", self._objects.url, name, error.strerror)

    def _sweep(self) -> None:
        """Bring the files that are new or have changed, but for those that trials bring."""
        for path in _others(self._folder):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            state = status.st_size, status.st_mtime_ns
            if self._brought.get(path) != state:
                mirror.hand_over(path)
                self._brought[path] = state

    def _end(self) -> None:
        if self.is_lost:
            return
        if self._sweeping:
            wait([self._sweeping])
        self._now(self._lease.renew)
        self._now(self._follow)
        self._now(self._sweep)

    def _now(self, do: Callable[[], object]) -> None:
        try:
            patiently(do)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot write to {self._objects.url}: {error.strerror}; what it lacks is in "
            f"{self._folder}, and a resume on this machine brings it"
        )


@contextmanager
def held(folder: Path, *, say: Callable[[str], object]) -> Iterator[InPlace | InStore]:
    """The upkeep of the experiment in `folder`, which within it has no other driver.

    A mirror is as new as the store when it begins. say: told where it takes until a silent driver
    counts as dead. Raises UsageError where another driver holds it.
    """
    objects = mirror.objects_of(folder)
    if objects is None:
        yield InPlace()
        return
    with mirror.asking(objects):
        lease = take(objects, lambda: fetch(objects).end, say=say)
    upkeep = InStore(folder, lease)
    try:
        mirror.refresh(folder)
        yield upkeep
    finally:
        if not upkeep.is_lost:
            try:
                lease.release()
            except OSError as error:
                _log.warning("%s stays held for a while: %s", objects.url, error.strerror)


def _others(folder: Path) -> Iterator[Path]:
    """The files below `folder` that are neither the journal nor brought by trials."""
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "checkpoints" and name[0] != "."]
        for name in files:
            own = name.startswith("log") and name.endswith(".txt")
            if name[0] != "." and name != mirror.JOURNAL and not own and ".partial" not in name:
                yield Path(root, name)
