"""A trial's own output in its log.txt: whatever its process and its children write."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self, TextIO

from tuner.errors import StorageError, translate_error
from tuner.experiment.folder import ExperimentFolder
from tuner.places import shown
from tuner.trial import log_writer

_PATIENCE_S = 60.0  # with the log writer, which answers in milliseconds
_PIPE_BYTES = 1 << 20  # mostly the system's maximum; a worker waits when the pipe is full


class TrialLog:
    """Within it, all that reaches file descriptors 1 and 2 goes to the experiment's file `name`.

    That is what Python, C code and child processes print, and the traceback of a crash. The file
    is appended to and capped; see `tuner.trial.log_writer`. For an experiment in an object store
    it is uploaded when the trial fails or ends. Raises StorageError where it cannot be opened.
    """

    def __init__(self, experiment: Path, name: str) -> None:
        self._experiment = ExperimentFolder(experiment)
        self._name = name
        self._path = experiment / name

    def fileno(self) -> int:
        """A descriptor that leads to the file, until the context ends."""
        return self._pipe

    def catch_up(self) -> None:
        """Return when what was written so far is in the file."""
        _flush()
        catch_up()
        self._upload()

    def __enter__(self) -> Self:
        with translate_error(StorageError, f"cannot write {shown(self._path)}", of=OSError):
            self._experiment.fetch(self._name)  # what was written before, on whichever machine
            self._experiment.make_folder(self._path.parent)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        end, self._pipe = os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            _open_in_writer(end, file)
        finally:
            os.close(end)
            os.close(file)
        _flush()
        self._before = os.dup(1), os.dup(2)
        self._streams = sys.stdout, sys.stderr
        for fd in (1, 2):
            os.dup2(self._pipe, fd)
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        faulthandler.enable(self._pipe)
        return self

    def __exit__(self, *exception: object) -> None:
        _flush()
        sys.stdout, sys.stderr = self._streams
        for fd, before in enumerate(self._before, start=1):
            os.dup2(before, fd)
            os.close(before)
        faulthandler.enable(2)
        os.close(self._pipe)
        catch_up()
        self._upload()

    def _upload(self) -> None:
        try:
            self._experiment.upload(self._path)
        except OSError as error:  # a trial does not fail for want of its log
            print(f"this log stays in {self._path}: {error.strerror}")


@cache
def _writer() -> socket.socket:
    """The connection to this process's log writer, which is started for it."""
    ours, other = socket.socketpair()
    ours.settimeout(_PATIENCE_S)
    command = [sys.executable, "-I", "-S", log_writer.__file__, str(other.fileno())]
    with other:
        starter = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
            start_new_session=True,
        )
    starter.wait()  # it leaves the writer behind, which is nobody's child
    return ours


def _ask_writer(request: bytes, *fds: int) -> None:
    """Return when the log writer has done what is requested.

    Raises ConnectionError where it is gone, or does not answer: a trial must not hang with its
    storage. The next request is then a new writer's.
    """
    try:
        socket.send_fds(_writer(), [request], fds)
        answer = _writer().recv(1)
    except (ConnectionError, TimeoutError):
        answer = b""
    if not answer:
        leave_writer()
        raise ConnectionError("the process that writes the trials' logs is gone")


def _open_in_writer(pipe: int, file: int) -> None:
    """Let it copy what comes out of `pipe` to `file`."""
    try:
        _ask_writer(log_writer.OPEN, pipe, file)
    except ConnectionError:  # it was killed
        _ask_writer(log_writer.OPEN, pipe, file)


def catch_up() -> None:
    """Return when what this process has written to its trials' logs is in their files."""
    with suppress(ConnectionError):  # it was killed: what it had not written is lost
        _ask_writer(log_writer.CATCH_UP)


def leave_writer() -> None:
    """Let the next log have another writer; this one ends once it has written everything."""
    _writer.cache_clear()


def _stream(fd: int) -> TextIO:
    """A line-buffered stream of text to `fd`, which accepts half a surrogate, too."""
    return os.fdopen(
        fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def _flush() -> None:
    """Write out what Python and C have buffered."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the trial may have closed it
            stream.flush()
    _libc().fflush(None)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
