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

from tuner.errors import StorageError
from tuner.places import shown
from tuner.record.folder import ExperimentFolder
from tuner.trial import log_writer

_PATIENCE_S = 60.0  # with the log writer, which answers in milliseconds
_PIPE_BYTES = 1 << 20  # mostly the system's maximum; a worker waits when the pipe is full


class TrialLog:
    """Within it, all that reaches file descriptors 1 and 2 goes to the file `path`.

    That is what Python, C code and child processes print, and the traceback of a crash. The file
    is appended to and capped; see `tuner.trial.log_writer`. For an experiment in an object store
    it is uploaded when the trial fails or ends. Raises StorageError where it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = ExperimentFolder(path.parent)

    def fileno(self) -> int:
        """A descriptor that leads to the file, until the context ends."""
        return self._pipe

    def catch_up(self) -> None:
        """Return when what was written so far is in the file."""
        _flush()
        catch_up()
        self._upload()

    def __enter__(self) -> Self:
        try:
            self._files.fetch(self._path.name)  # what was written before, on whichever machine
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StorageError(f"cannot write {shown(self._path)}: {error.strerror}") from error
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
            self._files.upload(self._path)
        except OSError as error:  # a trial does not fail for want of its log
            print(f"this log stays in {self._path}: {error.strerror}")


class _Writer:
    """The worker's end of the connection to its log writer."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self._socket.settimeout(_PATIENCE_S)
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

    def open(self, pipe: int, file: int) -> None:
        """Let it copy what comes out of `pipe` to `file`."""
        socket.send_fds(self._socket, [log_writer.OPEN], [pipe, file])
        self._wait()

    def catch_up(self) -> None:
        """Return when everything written so far is in its file."""
        self._socket.sendall(log_writer.CATCH_UP)
        self._wait()

    def _wait(self) -> None:
        try:
            answer = self._socket.recv(1)
        except TimeoutError:  # a trial must not hang with its storage
            answer = b""
        if not answer:
            raise ConnectionError("the process that writes the trials' logs is gone")


@cache
def _writer() -> _Writer:
    return _Writer()


def _open_in_writer(pipe: int, file: int) -> None:
    try:
        _writer().open(pipe, file)
    except ConnectionError:  # it was killed
        leave_writer()
        _writer().open(pipe, file)


def catch_up() -> None:
    """Return when what this process has written to its trials' logs is in their files."""
    try:
        _writer().catch_up()
    except ConnectionError:  # it was killed: what it had not written is lost
        leave_writer()


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
