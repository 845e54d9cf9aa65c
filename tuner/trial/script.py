"""A script that a trial runs: its process, its output, and its reports.

It reports by `tuner.report`, which waits for an answer, or by JSON lines on stdout. A script that
has printed a report is paused (SIGSTOP) until the search has decided. It runs on until the line is
read, mostly for less than a millisecond: what it writes in that time may be in the checkpoint.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import psutil

from tuner.trial.directories import TRIAL_DIR

REPORTS = "TUNER_REPORTS"  # in the environment of a script: the socket

_EVERY_S = 0.1  # how often its process is looked at
_ANSWER_S = 10.0  # for `tuner.report` to send its line
_TAIL = 8192  # bytes of stderr that are kept
_LONGEST_FOLDER = 80  # bytes; with the name of a socket in it at most 107, see unix(7)
_LONGEST_LINE = 1 << 20  # bytes of a JSON line


class Script:
    """The process of a script, which leads a group and a session of its own.

    metric: the objective's, by which a JSON line is a report. on_report: called for each report as
    soon as it is read, while the script waits; what it returns comes with the report. grace_s:
    between SIGTERM and SIGKILL. rest_s: to read what is left in the pipes, which a process of its
    own may hold open.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        metric: str,
        on_report: Callable[[], Path | None],
        grace_s: float = 10.0,
        rest_s: float = 1.0,
    ) -> None:
        self._grace_s = grace_s
        self._rest_s = rest_s
        self._metric = metric
        self._on_report = on_report
        self._reports: deque[tuple[Any, Path | None]] = deque()
        # The `tuner.report` that waits for its answer
        self._waiting: socket.socket | None = None
        self._has_called = False
        self._is_paused = False
        self._line = self._tail = b""
        self.folder = _create_folder()  # temporary
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / "reports"))
        self._listener.listen()
        self._process = subprocess.Popen(
            arguments,
            env={**environment, REPORTS: str(self.folder / "reports")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        # Its outputs, each with the descriptor of the trial's log and what reads it
        out = (1, self._process.stdout, self._take_stdout)
        err = (2, self._process.stderr, self._take_stderr)
        self._streams: list[Any] = [out, err]
        for fd, stream, read in self._streams:
            copy = partial(self._copy, fd, stream, read)
            self._selector.register(stream, selectors.EVENT_READ, copy)

    def next_report(self) -> tuple[Any, Path | None] | None:
        """The next report, and what `on_report` returned for it; None once the script has ended."""
        if not self._reports:
            self._resume()
        while not self._reports and self._process.poll() is None:
            self._read(_EVERY_S)
        deadline = time.monotonic() + self._rest_s
        while not self._reports and time.monotonic() < deadline and self._read(0):
            pass
        return self._reports.popleft() if self._reports else None

    @property
    def exit_code(self) -> int | None:
        """As Popen's returncode: below 0 the signal that ended it; None while it runs."""
        return self._process.poll()

    @property
    def last_lines(self) -> list[str]:
        """The last lines of stderr that are not empty."""
        text = self._tail.decode(errors="replace").replace("\r", "\n")
        return [line.strip() for line in text.split("\n") if line.strip(" \t^~")]

    def end(self) -> None:
        """End the process group, by SIGTERM and after a grace by SIGKILL; forget the socket."""
        below = self._list_descendants()
        if self._process.poll() is None:
            self._send_signal(signal.SIGTERM)
            self._resume()
            deadline = time.monotonic() + self._grace_s
            while self._process.poll() is None and time.monotonic() < deadline:
                self._read(_EVERY_S)
            self._send_signal(signal.SIGKILL)
            self._process.wait()
        for process in below:  # of other sessions
            with suppress(psutil.Error):
                process.kill()
        self._selector.close()
        self._listener.close()
        for _, stream, _ in self._streams:
            stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _list_descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:  # it has ended
            return []

    def _resume(self) -> None:
        if self._waiting is not None:
            with suppress(OSError), self._waiting:  # it is gone
                self._waiting.sendall(b"\n")
            self._waiting = None
        if self._is_paused:
            self._is_paused = False
            self._send_signal(signal.SIGCONT)

    def _send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self, timeout_s: float) -> bool:
        """Read what comes within the time; whether anything did."""
        events = self._selector.select(timeout_s)
        for key, _ in events:
            key.data()
        return bool(events)

    def _copy(self, log: int, stream: IO[bytes], read: Callable[[bytes], None]) -> None:
        data = os.read(stream.fileno(), 1 << 16)
        if not data:
            self._selector.unregister(stream)
            read(b"\n")  # ends a last line
            return
        os.write(log, data)
        read(data)

    def _take_stderr(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL:]

    def _take_stdout(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[:_LONGEST_LINE]
        for line in lines:
            text = line.strip().rpartition(b"\r")[2].lstrip()  # behind a progress bar
            if text.startswith(b"{") and not self._has_called:
                self._take_line(text)

    def _take_line(self, line: bytes) -> None:
        try:
            values = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):  # no report
            return
        if self._metric in values or self._metric.partition("/")[0] in values:
            self._is_paused = True
            self._send_signal(signal.SIGSTOP)
            self._reports.append((values, self._on_report()))

    def _accept(self) -> None:
        """Take the report of a `tuner.report`. One connection waits at a time."""
        connection, _ = self._listener.accept()
        connection.settimeout(_ANSWER_S)
        try:
            with connection.makefile("rb") as file:
                values = json.loads(file.readline())
        except (OSError, ValueError, RecursionError):
            # The client has gone, or sends no report
            connection.close()
            return
        self._has_called = True
        if self._waiting is not None:
            self._waiting.close()
        self._waiting = connection
        self._reports.append((values, self._on_report()))


def _create_folder() -> Path:
    """A new temporary folder whose path is short enough for that of a socket in it."""
    own = tempfile.gettempdir()
    for parent in (own, "/tmp", "/var/tmp", "/dev/shm"):
        if len(os.fsencode(parent)) <= _LONGEST_FOLDER and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="tuner-", dir=parent))
    raise OSError(
        errno.ENAMETOOLONG, "no short temporary folder for a socket: set TMPDIR", own
    )


def report(metrics: Mapping[str, Any] | None = None, /, **named: Any) -> None:
    """Report the metrics of an epoch: tuner.report(val_loss=0.3), or a mapping of them.

    It returns when the search has recorded them, and what the script wrote to
    $TUNER_CHECKPOINT_DIR is the checkpoint of the epoch. If the search stops the trial, the script
    gets SIGTERM here. epoch: the number of the epoch, in the script's own counting; unless it is
    reported, epochs are counted by reports. done=True ends the trial.

    Outside of a search it does nothing, and neither on ranks other than 0 ($RANK). In a plain
    function that a search trains it is Ray's `tune.report`.
    """
    values = {**(metrics or {}), **named}
    path = os.environ.get(REPORTS)
    if path is None and TRIAL_DIR in os.environ:
        from ray import tune

        tune.report(json.loads(json.dumps(values, default=_convert_value)))
    if path is None or os.environ.get("RANK", "0") != "0":
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(values, default=_convert_value).encode() + b"\n")
        connection.recv(1)


def _convert_value(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else str(value)
