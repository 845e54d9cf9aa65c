"""Ends what a driver has started, however the driver ends; run as a process of its own.

The driver holds the other end of this process's stdin. When that closes, by an orderly end or by
SIGKILL, every process that carries the driver's mark in its environment is ended, and the driver's
temporary folder is removed. It needs Linux's /proc; elsewhere it only removes the folder.

This file is run by its path and uses the standard library alone, so that it starts in milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "TUNER_SESSION"  # in the environment of Ray's daemons and, through them, of every worker

_PATIENCE_S = 3.0  # between SIGTERM and SIGKILL


def new_mark() -> str:
    """A mark that no other driver has."""
    return os.urandom(16).hex()


def start(mark: str, temporary: str) -> subprocess.Popen[bytes]:
    """Start the guard; the end of its context, or this process's death, sets it off."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, temporary],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C in the terminal is not for it
    )


def marked(mark: str, temporary: str) -> list[int]:
    """The pids of all other processes whose environment carries `mark`.

    Ray's daemons give themselves a title that can overwrite it: what has a file of the folder
    `temporary` open, and an environment that begins with nothing, is one of them.
    """
    wanted, within = f"{MARK}={mark}".encode(), f"{temporary}/"
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            ours = wanted in environment.split(b"\0")
            if not ours and environment.startswith(b"\0"):
                ours = any(os.readlink(fd).startswith(within) for fd in (entry / "fd").iterdir())
        except OSError:
            continue  # it has ended, or is another user's
        if ours and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def end(mark: str, temporary: str) -> None:
    """End every marked process: asked first, then made to."""
    asked = time.monotonic()
    number = signal.SIGTERM
    while pids := marked(mark, temporary):
        if time.monotonic() - asked > _PATIENCE_S:
            number = signal.SIGKILL
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue  # it was faster
        time.sleep(0.1)


def main(mark: str, temporary: str) -> None:
    """Wait for the driver's end, then clean up after it."""
    sys.stdin.buffer.read()
    end(mark, temporary)
    shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
