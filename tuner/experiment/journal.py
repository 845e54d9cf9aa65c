"""The append-only record of an experiment: its lock and its one writer.

journal.jsonl has one JSON object a line (`tuner.experiment.events`), oldest first. A line counts
once its newline is written; the next writer cuts off what a kill leaves after it.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any

from tuner.errors import JournalError, JournalLostError, UsageError, translate_error
from tuner.experiment.events import (
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    Event,
    find_fault,
)
from tuner.experiment.files import JOURNAL, open_plain, sync
from tuner.experiment.owner import format_owner
from tuner.experiment.reading import LONGEST, Lines, Order, decode, open_journal, read
from tuner.wording import find_program

_LOCK_WAIT_S = 0.5
# Monotonic, including a laptop's sleep if the system counts it
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

Clock = Callable[[], float]  # seconds since the epoch that never go back


class Journal:
    """The one writer of a journal; holds its lock from `open` to `close`.

    An appended line survives the end of this process, and after `sync` a power cut.
    """

    def __init__(
        self, path: Path, fd: int, *, size: int, order: Order, clock: Clock
    ) -> None:
        self.path = path
        self._fd: int | None = fd
        self._size = size  # in bytes, as far as this writer knows
        self._order = order
        self._clock = clock
        self._synced = self._opened = size
        self._writing = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, clock: Clock | None = None) -> Journal:
        """Open or create the journal in `folder`, lock it, and cut off a torn last line.

        clock: continues from the last event by default. Raises JournalError for a damaged file,
        UsageError if another driver holds it.
        """
        path = folder / JOURNAL
        with translate_error(JournalError, f"cannot open {path}", of=OSError):
            fd = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            _lock(fd, folder)
            last = 0.0
            with translate_error(JournalError, f"cannot open {path}", of=OSError):
                with open(fd, "rb", closefd=False) as file:
                    events = Lines(file, path)
                    for event in events:
                        last = max(last, event["time"])
                os.ftruncate(fd, events.end)
                os.fsync(fd)
                sync(folder)
        except BaseException:
            os.close(fd)
            raise
        clock = clock or start_clock(not_before=last)
        return cls(path, fd, size=events.end, order=events.order, clock=clock)

    def read_earlier(self) -> Iterator[Event]:
        """The events from before `open`, which has checked them; raises JournalError."""
        left = self._opened
        try:
            with open_journal(self.path) as file:
                while left > 0 and (line := file.readline(LONGEST)):
                    left -= len(line)
                    yield decode(line)
        except OSError as error:
            raise JournalError(f"cannot read {self.path}: {error.strerror}") from error

    @property
    def clock(self) -> Clock:
        return self._clock

    def append(
        self, event: str, *, trial_id: str | None = None, **fields: Any
    ) -> Event:
        """Write one line; returns the event as journaled, with its time.

        Raises JournalError, with the journal unchanged, for invalid fields or a full disk;
        JournalLostError as `check`; AssertionError for an event out of order.
        """
        assert self._fd is not None, "the journal is closed"
        whose = {} if trial_id is None else {"trial_id": trial_id}
        record: Event = {
            "event": event,
            "time": round(self._clock(), 6),
            **whose,
            **fields,
        }
        line = _encode(record)
        fault = self._order.find_fault(record)
        assert fault is None, fault  # nobody could read it any more
        with self._writing:
            self._write(self._fd, line)
        self._order.add(record)
        if event == EXPERIMENT_ENDED:
            self.sync()
        return record

    def sync(self) -> None:
        """Force appended lines to the disk, from any thread. Raises JournalError."""
        assert self._fd is not None, "the journal is closed"
        size = self._size
        if size == self._synced:
            return
        with translate_error(JournalError, f"cannot write {self.path}", of=OSError):
            os.fsync(self._fd)
        self._synced = size

    def check(self) -> None:
        """Raise JournalLostError if the file was moved or another driver has written to it.

        Callable from any thread. Some network file systems do not lock between machines.
        """
        with self._writing:
            self._check()

    def _check(self) -> None:
        assert self._fd is not None, "the journal is closed"
        try:
            ours = os.fstat(self._fd)
            is_there = os.path.samestat(ours, os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            is_there = False
        except OSError as error:
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from error
        if not is_there:
            raise JournalLostError(
                f"{self.path.parent} was moved or removed while the search ran, which has ended; "
                f"if it was moved, go on with: {find_program()} resume THE-NEW-FOLDER"
            )
        if ours.st_size != self._size:
            raise JournalLostError(
                f"{self.path} is written to by another driver, too: the file system does not keep "
                "its lock between machines. The experiment is left to "
                f"{_describe_holder(self.path.parent)}"
            )

    def close(self) -> None:
        """Force the journal to the disk and free its lock. Closing twice does nothing."""
        if self._fd is None:
            return
        try:
            self.sync()
        finally:
            fd = self._fd
            self._fd = None
            with translate_error(JournalError, f"cannot write {self.path}", of=OSError):
                os.close(fd)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _write(self, fd: int, line: bytes) -> None:
        self._check()
        try:
            written = os.write(fd, line)
            while written < len(line):
                # A disk that fills up takes a part first, then refuses
                written += os.write(fd, line[written:])
        except OSError as error:
            with suppress(OSError):  # what stays is cut off by the next `open`
                os.ftruncate(fd, self._size)
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from error
        self._size += len(line)


def is_locked(folder: Path) -> bool:
    """Whether a live driver holds the journal in `folder`; False where there is none."""
    try:
        with os.fdopen(open_plain(folder / JOURNAL), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def lock_journal(folder: Path) -> Iterator[None]:
    """Exclude drivers of this machine. Raises UsageError, naming the present driver."""
    try:
        fd = open_plain(folder / JOURNAL)
    except OSError:
        yield
        return
    try:
        _lock(fd, folder)
        yield
    finally:
        os.close(fd)


def _encode(event: Event) -> bytes:
    what = f"cannot journal {event['event']} of trial {event.get('trial_id', '-')}"
    fault = find_fault(event)
    if fault:
        raise JournalError(f"{what}: {fault}")
    try:
        line = (
            json.dumps(event, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        )
    except (TypeError, ValueError) as error:
        raise JournalError(f"{what}: {error}, in {shown(event)}") from error
    if len(line) > LONGEST:
        raise JournalError(f"{what}: a line must have at most {LONGEST >> 20} MiB")
    return line


def _lock(fd: int, folder: Path) -> None:
    """Take the exclusive lock, waiting out readers, who hold it for microseconds."""
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{folder / JOURNAL} is held by {_describe_holder(folder)}; let it end or stop "
                    "it first"
                ) from None
            time.sleep(0.02)
        except OSError as error:
            raise JournalError(
                f"cannot lock {folder / JOURNAL}: {error.strerror}"
            ) from error


def _describe_holder(folder: Path) -> str:
    owner = None
    with suppress(JournalError):
        # The next owner of the lock will see that it is damaged
        for event in read(folder):
            if event["event"] == EXPERIMENT_STARTED:
                owner = event["owner"]
    return format_owner(owner)


def start_clock(
    *, not_before: float = 0.0, now: Clock | None = None, elapsed: Clock | None = None
) -> Clock:
    """A clock that starts at the machine's time, or `not_before`, and never goes back."""
    now = now or time.time
    elapsed = elapsed or partial(time.clock_gettime, _ELAPSED)
    offset = max(now(), not_before) - elapsed()
    return lambda: offset + elapsed()
