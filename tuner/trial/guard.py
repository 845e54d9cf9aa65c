"""Ends the processes that another process has started, even if that process is killed.

The guard is a process of its own. It finds the others in Linux's /proc by a mark in their
environment, of any parent and session; on other systems it finds none. Its stdin closes
when the process that started it ends, even by SIGKILL.

A driver's guard ends Ray's daemons and workers, and removes the driver's temporary folder. A
trial's guard ends the processes of the trial's script, and removes its temporary folders. Forked
processes, such as DataLoader's workers, have no trial's mark, and end with their parent.

This file is run by its path and uses the standard library alone, so that it starts in milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# In the environment of Ray's daemons and, through them, of every worker
MARK = "TUNER_SESSION"

_TRIAL_MARK = "TUNER_TRIAL"
_PATIENCE_S = 3.0  # between SIGTERM and SIGKILL
_READS = 10
_READ_S = 0.001  # of an empty environment
_MOST_ROUNDS = 10  # of a family that goes on forking while it is ended

# In the commands of what a library starts once for its whole process, and which ends with it
_OF_LIBRARIES = (b"multiprocessing.", b"_inductor", b"torch_shm_manager", b"wandb")


def generate_mark() -> str:
    return os.urandom(16).hex()


def start(mark: str, *temporary: str) -> subprocess.Popen[bytes]:
    """Start a guard; the end of its context, or this process's death, sets it off."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, *temporary],
        env={name: value for name, value in os.environ.items() if name != _TRIAL_MARK},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C in the terminal is not for it
    )


def _read_environments() -> Iterator[tuple[int, Path, list[bytes]]]:
    """The pid, the folder in /proc and the environment of every other process.

    Processes that this user may not read are left out.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if entry.name == str(os.getpid()):
                continue
            for _ in range(_READS):
                if environment := (entry / "environ").read_bytes():
                    break
                os.readlink(entry / "exe")
                # It starts: the kernel has not copied the strings yet
                time.sleep(_READ_S)
            yield int(entry.name), entry, environment.split(b"\0")


def find_marked(mark: str, temporary: str) -> list[int]:
    """The pids of all other processes whose environment carries a driver's `mark`.

    Ray's daemons give themselves a title that can overwrite it: what has a file of the folder
    `temporary` open, and an environment that begins with nothing, is one of them.
    """
    entry_of_mark = f"{MARK}={mark}".encode()
    within = f"{temporary}/"
    pids = []
    for pid, entry, variables in _read_environments():
        is_marked = entry_of_mark in variables
        if not is_marked and len(variables) > 1 and not variables[0]:
            with suppress(OSError):
                is_marked = any(
                    os.readlink(fd).startswith(within)
                    for fd in (entry / "fd").iterdir()
                )
        if is_marked:
            pids.append(pid)
    return pids


def end(mark: str, temporary: str, *, patience_s: float = _PATIENCE_S) -> None:
    """End every process with a driver's mark: by SIGTERM, and after `patience_s` by SIGKILL."""
    began = time.monotonic()
    while pids := find_marked(mark, temporary):
        is_late = time.monotonic() - began > patience_s
        _send_signal(pids, signal.SIGKILL if is_late else signal.SIGTERM)
        time.sleep(0.1)


def _send_signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(pid, number)


class Children:
    """The processes that are started between `begin` and `end`, and left running by a trial."""

    def __init__(self) -> None:
        self._mark = generate_mark()
        # Whose stdin closes as this one dies
        self._guard: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Mark what this process starts from here on."""
        os.environ[_TRIAL_MARK] = self._mark

    def start_guard(self) -> None:
        """Start a process that ends them if this process dies."""
        if self._guard is None:
            self._guard = start(self._mark)
            self._guard.wait()  # it leaves the process behind, which is nobody's child

    def remove_at_death(self, folder: Path) -> None:
        """Let the guard remove a folder if this process dies."""
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(OSError):  # the guard was killed
                self._guard.stdin.write(os.fsencode(folder) + b"\0")
                self._guard.stdin.flush()

    def end(self) -> int:
        """End those that still run; returns their number."""
        return _end_children(self._mark)


def _end_children(mark: str) -> int:
    entry_of_mark = f"{_TRIAL_MARK}={mark}".encode()
    ended = set[int]()
    for _ in range(_MOST_ROUNDS):
        running = []
        for pid, entry, variables in _read_environments():
            if entry_of_mark in variables and pid not in ended:
                with suppress(OSError):  # it has ended
                    command = (entry / "cmdline").read_bytes()
                    if not any(name in command for name in _OF_LIBRARIES):
                        running.append(pid)
        if not running:
            break
        _send_signal(running, signal.SIGKILL)
        ended.update(running)
    return len(ended)


def main(mark: str, temporary: str | None = None) -> None:
    """Wait for the end of what started this, then clean up; temporary: None for a trial."""
    if temporary is None and os.fork():
        os._exit(0)  # Ray kills a worker's children with it
    folders = sys.stdin.buffer.read().split(b"\0")[:-1]
    if temporary is None:
        _end_children(mark)
    else:
        end(mark, temporary)
        folders.append(os.fsencode(temporary))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
