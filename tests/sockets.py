"""The sockets on which processes listen."""

import ipaddress
from contextlib import suppress

import psutil


def listening(pids):
    """(pid, address) of every TCP socket on which one of `pids` listens."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            connections = psutil.Process(pid).net_connections("tcp")
            found += [(pid, address) for address in list_addresses(connections)]
    return found


def list_addresses(connections):
    """The (IP, port) of those connections of psutil that listen."""
    return [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]


def outside(pids):
    """Those of `listening` that can be reached from other machines."""
    return [(pid, address) for pid, address in listening(pids) if is_reachable(address)]


def is_reachable(address):
    ip = ipaddress.ip_address(address.ip)
    return not (getattr(ip, "ipv4_mapped", None) or ip).is_loopback
