"""The sockets on which processes listen, as Linux tells them."""

import ipaddress
import os
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def listening(pids):
    """(pid, address) of every TCP socket on which one of `pids` listens."""
    table = _table()
    return [
        (pid, table[inode]) for pid in pids for inode in _inodes(pid) if inode in table
    ]


def outside(pids):
    """Those of `listening` that can be reached from other machines."""
    return [
        (pid, address) for pid, address in listening(pids) if not _is_loopback(address)
    ]


def _is_loopback(address):
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _table():
    """The address of every listening socket, by its inode."""
    sockets = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN:
                sockets[fields[9]] = _address(fields[1].partition(":")[0])
    return sockets


def _address(text):
    words = [
        bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)
    ]
    return ipaddress.ip_address(b"".join(words))


def _inodes(pid):
    with suppress(OSError):  # it has ended
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                link = os.readlink(fd)
                if link.startswith("socket:["):
                    yield link[8:-1]
