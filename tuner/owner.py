"""Who drives an experiment, as its journal's `owner` has it: {host, pid, started}."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tuner.wording import printable


def this_owner() -> dict[str, Any]:
    """The `owner` of an experiment_started event: this process, as of now."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": round(time.time(), 6)}


def processes_here() -> str:
    """Names the processes that this one sees by their numbers; "" where the system does not tell.

    It is another one after the machine has started anew, and in a container.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    return ""


def owner_in_words(owner: Mapping[str, Any] | None) -> str:
    """Who holds the lock of a journal that `owner` was the last to sign; None: nobody has yet."""
    if owner is None or (owner["host"] == socket.gethostname() and not is_alive(owner["pid"])):
        return "another driver that has just started"  # it has not signed the journal yet
    since = datetime.fromtimestamp(owner["started"]).astimezone().isoformat(" ", "seconds")
    return f"another driver: pid {owner['pid']} on {printable(owner['host'])}, since {since}"


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number here."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
