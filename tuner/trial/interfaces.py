"""The network interface over which the ranks of a trial meet."""

from __future__ import annotations

import os

import psutil

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # which gloo and NCCL read


def use_interface_of(address: str) -> None:
    """Let this process's ranks meet over the network interface of `address`, its node's own.

    Left to themselves, gloo and NCCL go by the host's name or the first interface that they find.
    On a machine with several networks, or whose name means its loopback address, ranks on other
    nodes could not be reached. What the user has set stays; nothing is set where no interface has
    that address.
    """
    for name, addresses in psutil.net_if_addrs().items():
        if address in (each.address.partition("%")[0] for each in addresses):
            for variable, value in exactly(name).items():
                os.environ.setdefault(variable, value)
            return


def exactly(name: str) -> dict[str, str]:
    """The environment in which gloo and NCCL use the interface `name`.

    NCCL takes a name without "=" for the beginning of one: eth1 for eth10, too.
    """
    return dict(zip(VARIABLES, (name, f"={name}"), strict=True))
