"""Who acts on an experiment: the process that drives it, and the user."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tuner.wording import clean_text


def build_owner() -> dict[str, Any]:
    """The `owner` of an experiment_started event: this process, as of now."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": round(time.time(), 6),
    }


def find_user_name() -> str | None:
    """The user's name; None if the system does not know it, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def read_namespace_id() -> str:
    """An id of the boot and process namespace, or "" if unknown."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    return ""


def format_owner(owner: Mapping[str, Any] | None) -> str:
    """The driver that holds a journal with this last `owner`, or None."""
    if owner is None or (
        owner["host"] == socket.gethostname() and not is_alive(owner["pid"])
    ):
        # It has not signed the journal yet
        return "another driver that has just started"
    since = (
        datetime.fromtimestamp(owner["started"]).astimezone().isoformat(" ", "seconds")
    )
    return f"another driver: pid {owner['pid']} on {clean_text(owner['host'])}, since {since}"


def is_alive(pid: int) -> bool:
    """Whether a process of that number exists on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
