"""Over which network interface the ranks of a trial meet: the one by which Ray's nodes do.

Left to themselves, gloo and NCCL go by the host's name or the first interface that they find. On a
machine with several networks, or whose name means its loopback address, ranks on other nodes would
not be reached.
"""

from __future__ import annotations

import os

import psutil

_CHOSEN_BY = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def meet_by(address: str) -> None:
    """Let this process's ranks meet by the interface of `address`, its node's own.

    What the user has set stays; so it does where no interface has that address.
    """
    name = interface_of(address)
    if name:
        for variable in _CHOSEN_BY:
            os.environ.setdefault(variable, name)


def interface_of(address: str) -> str | None:
    """The interface that has the IP `address`; None where there is none."""
    for name, addresses in psutil.net_if_addrs().items():
        if address in (each.address.partition("%")[0] for each in addresses):
            return name
    return None
