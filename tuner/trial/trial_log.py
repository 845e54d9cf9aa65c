"""A trial's log.txt: the output of its process and its children, capped at each epoch."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self, TextIO

from tuner.errors import StorageError, translate_error
from tuner.experiment.folder import ExperimentFolder
from tuner.places import shown
from tuner.process import Lossy

LIMIT = 1 << 20  # bytes of a log
GAP = b"\n[... the middle of the log is left out ...]\n"


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
            cut(self._path, limit)

    def upload(self) -> None:
        """Cap the log, and upload it to the experiment's object store, if it has one."""
        self.cap()
        try:
            self._experiment.upload(self._path)
        except OSError as error:
            print(f"this log stays in {self._path}: {error.strerror}")

    def __enter__(self) -> Self:
        with translate_error(StorageError, f"cannot write {shown(self._path)}", of=OSError):
            self._experiment.fetch(self._name)  # what was written before, on any machine
            self._experiment.make_folder(self._path.parent)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        _flush()
        self._before = os.dup(1), os.dup(2)
        self._streams = sys.stdout, sys.stderr
        for fd in (1, 2):
            os.dup2(self._file, fd)
        sys.stdout, sys.stderr = _stream(1), _stream(2)
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


def cut(path: Path, limit: int = LIMIT) -> None:
    """Cut the middle out of a file of more than `limit` bytes.

    The first half and the last quarter of `limit` stay, with GAP between them. The end is copied
    before the file is truncated, so a kill loses none of it.
    """
    if (size := path.stat().st_size) <= limit:
        return
    first, last = limit // 2, limit // 4
    with path.open("r+b", buffering=0) as file:
        text = GAP + os.pread(file.fileno(), last, size - last)
        os.pwrite(file.fileno(), text, first)  # in place, which works on a full disk, too
        os.ftruncate(file.fileno(), first + len(text))


def _stream(fd: int) -> TextIO:
    """A line-buffered stream of text to `fd`, which accepts half a surrogate and a full disk."""
    raw = io.BufferedWriter(Lossy(fd, "wb", closefd=False))
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)


def _flush() -> None:
    """Write out what Python and C have buffered."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the trial may have closed it
            stream.flush()
    ctypes.CDLL(None).fflush(None)
