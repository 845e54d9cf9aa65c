"""What of Ray runs on this machine: searches of ours, what they left over, and who listens.

Only the processes of this user are looked at; nothing is started or asked.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import psutil

from tuner import ray_compat
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


def sessions() -> list[Session]:
    """The sessions of this user on this machine, those whose driver is gone included."""
    drivers: dict[str, int] = {}  # each by its session's mark
    folders: dict[str, Path | None] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            match process.cmdline():
                case [*_, script, guarded, path] if Path(script).parts[-2:] == _GUARD:
                    drivers[guarded], folders[guarded] = process.ppid(), Path(path)
                    continue
            environment = process.environ()
            mark, token = environment.get(guard.MARK), environment.get(access.TOKEN_PATH)
            if mark and process.pid != os.getpid() and not folders.get(mark):
                folders[mark] = Path(token).parent if token else None
    listed = []
    for mark, folder in folders.items():
        pids = tuple(guard.marked(mark, str(folder)))
        if pids or mark in drivers:
            listed.append(Session(drivers.get(mark), pids, folder))
    return listed


def forgotten_folders(known: list[Session]) -> list[Path]:
    """Temporary folders of no session: both the driver and its guard were killed."""
    used = {session.folder for session in known}
    folders = sorted(Path(access.TEMPORARY).glob(f"{access.PREFIX}*"))
    return [folder for folder in folders if folder not in used and _is_ours(folder)]


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        return folder.stat().st_uid == os.getuid() and access.has_token(folder)
    return False


def listeners(known: list[Session]) -> list[Listener]:
    """Every port on which a process of Ray, or a driver of ours, listens; by address and port."""
    drivers = {session.driver: session for session in known}
    listening = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            name, asked = process.name(), [process.pid]
            if process.pid in drivers:
                name, asked = "driver", list(drivers[process.pid].pids)
            elif name not in ray_compat.DAEMONS and not name.startswith(ray_compat.AGENTS):
                if not name.startswith(ray_compat.WORKER):
                    continue
                name = "worker"
            token = any(map(asks_for_token, asked))
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    ip, port = connection.laddr
                    listening.append(Listener(name, _address(ip), port, token))
    return sorted(listening, key=lambda each: (each.reach, each.process, each.port))


def _address(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def asks_for_token(pid: int) -> bool:
    """As its environment says, or, where its title covers that, its parent's: the raylet's."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.parents()):
            if environment := one.environ():
                return environment.get(access.AUTH_MODE, "").lower() == "token"
    return False
