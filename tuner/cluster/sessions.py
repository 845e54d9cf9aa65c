"""What of Ray runs on this machine: searches of ours, what they left over, and who listens.

Told by the processes of this user alone; starts and asks nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import psutil

from tuner import ray_compat as ray_internals
from tuner.cluster import access, guard

_GUARD = Path(guard.__file__).parts[-2:]  # of whatever installation


@dataclass(frozen=True, slots=True)
class Session:
    """A Ray that a driver of ours has started: its processes and its temporary folder.

    driver: the pid of the driver; None where it is gone, so that all this is left over.
    """

    driver: int | None
    pids: tuple[int, ...]
    folder: Path | None


@dataclass(frozen=True, slots=True)
class Listener:
    """A port on which a process of Ray listens; `token` says whether it asks for one."""

    process: str
    address: IPv4Address | IPv6Address
    port: int
    token: bool

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return not self.address.is_loopback

    @property
    def reach(self) -> str:
        """The address, in words where it stands for all of them."""
        return "all addresses" if self.address.is_unspecified else str(self.address)


@dataclass(slots=True)
class _Found:
    driver: int | None = None
    folder: Path | None = None
    pids: list[int] = field(default_factory=list)


def sessions() -> list[Session]:
    """The sessions of this user on this machine, those whose driver is gone included."""
    found: dict[str, _Found] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            match process.cmdline():
                case [*_, script, mark, folder] if Path(script).parts[-2:] == _GUARD:
                    entry = found.setdefault(mark, _Found())
                    entry.driver, entry.folder = process.ppid(), Path(folder)
                    continue
            environment = process.environ()
            if (mark := environment.get(guard.MARK, "")) and process.pid != os.getpid():
                entry = found.setdefault(mark, _Found())
                if entry.folder is None and (token := environment.get(access.TOKEN_PATH)):
                    entry.folder = Path(token).parent
    listed = []
    for mark, entry in found.items():
        pids = guard.marked(mark, str(entry.folder)) if mark else []
        if pids or entry.driver:
            listed.append(Session(entry.driver, tuple(pids), entry.folder))
    return listed


def forgotten_folders(known: list[Session]) -> list[Path]:
    """Temporary folders of no session: both the driver and its guard were killed."""
    used = {session.folder for session in known}
    return [
        folder
        for folder in sorted(Path(access.TEMPORARY).glob(f"{access.PREFIX}*"))
        if folder not in used and _is_ours(folder)
    ]


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        return folder.stat().st_uid == os.getuid() and access.has_token(folder)
    return False


def listeners(known: list[Session]) -> list[Listener]:
    """Every port on which a process of Ray, or a driver of ours, listens; by address and port."""
    drivers = {session.driver: session for session in known}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            name = process.name()
            if process.pid in drivers:
                name, token = "driver", any(map(_asks_for_token, drivers[process.pid].pids))
            elif name in ray_internals.DAEMONS or name.startswith(ray_internals.AGENTS):
                token = _asks_for_token(process.pid)
            elif name.startswith(ray_internals.WORKER):
                name, token = "worker", _asks_for_token(process.pid)
            else:
                continue
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    ip, port = connection.laddr
                    found.append(Listener(name, _address(ip), port, token))
    return sorted(found, key=lambda listener: (listener.reach, listener.process, listener.port))


def _address(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def _asks_for_token(pid: int) -> bool:
    """As its environment says, or, where its title covers that, its parent's: the raylet's."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.parents()):
            if environment := one.environ():
                return environment.get(access.AUTH_MODE, "").lower() == "token"
    return False
