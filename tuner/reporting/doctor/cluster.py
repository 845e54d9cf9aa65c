"""A running cluster: whether it lets us in, whom else, and what each of its nodes has."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner import ray_compat
from tuner.cluster import access
from tuner.cluster.connect import connect
from tuner.cluster.joined.nodes import Node, how_soon, list_nodes
from tuner.cluster.joined.run_on_nodes import Reply, RunOnEach, run_on_each
from tuner.cluster.sessions import listeners, sessions
from tuner.errors import UsageError
from tuner.experiment.sharing import marker_in, why_not_shared
from tuner.places import is_url
from tuner.reporting.doctor import exposure, machine, storage
from tuner.reporting.doctor.finding import Finding, Level, size
from tuner.reporting.doctor.versions import installed_version

_PROBE_S = 60  # how long a cluster may take to answer one who shows no token
_COMPARED = ("tuner", "torch", "numpy")  # Ray's and Python's versions are compared by joining
_SHOWN = ("latency", "disk", "temporary files", "/dev/shm", "GPU", "ports")  # begin so
_CLOCKS_S = 5.0  # more apart, and the times of a journal and its files contradict each other


def check(address: str, place: str) -> Iterator[Finding]:
    """The running cluster at `address`: whether it lets us in, whom else, and what each node has.

    place: where experiments are to lie, which each node must share.
    """
    try:
        with connect(address):
            import ray

            head = ray.get_runtime_context().gcs_address
            yield Finding("cluster", "joined", f"{head}, Ray {ray.__version__} as here")
            nodes = list_nodes(draining=True)
            leaves = {node.node_id: node.leaves for node in nodes}
            for entry in ray.nodes():
                yield of_node(entry, leaves.get(entry["NodeID"]))
            yield from check_nodes([n for n in nodes if n.cpus and n.leaves is None], place)
    except UsageError as error:
        found, _, advice = str(error).partition(": ")
        yield Finding("cluster", "joined", found, "broken", advice)
        return
    if _lets_in_without_token(head):
        advice = (
            f"everyone who reaches it can run code in it: start it with {access.AUTH_MODE}=token"
        )
        yield Finding("cluster", "authentication", "without a token", "warning", advice)
    else:
        yield Finding("cluster", "authentication", "with a token")


def of_node(entry: dict[str, Any], leaves: float | None) -> Finding:
    """What a node's entry in `ray.nodes()` says; leaves: as of a Node."""
    has, name = entry["Resources"], entry["NodeManagerAddress"]
    if not entry["Alive"]:
        return Finding("cluster", name, "gone", "warning", "restart it")
    found = f"{has.get('CPU', 0):g} CPUs, {has.get('GPU', 0):g} GPUs"
    found += f", {size(has['memory'])} of memory" if "memory" in has else ""
    if leaves is None:
        return Finding("cluster", name, found)
    advice = "what runs there goes on elsewhere then; add a node if its room is needed"
    return Finding("cluster", name, f"{found}; leaves{how_soon(leaves)}", "warning", advice)


def _lets_in_without_token(head: str) -> bool:
    """Whether a client that shows no token gets an answer from the cluster's head."""
    tokens = (access.TOKEN, access.TOKEN_PATH)
    environment = {name: value for name, value in os.environ.items() if name not in tokens}
    try:
        done = subprocess.run(
            [sys.executable, "-c", ray_compat.PROBE, head],
            env={**environment, access.AUTH_MODE: "disabled"},
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@dataclass(frozen=True, slots=True)
class Examined:
    """What a node says of itself. apart: why it does not share the storage, "" if it does."""

    versions: dict[str, str]
    clock: float
    apart: str
    findings: tuple[Finding, ...]


def examine_node(marker: str) -> Examined:
    """On a node: what it says of itself."""
    findings = [*machine.check(), *exposure.of_node(listeners(sessions()))]
    apart = why_not_shared(marker)
    if not apart:
        findings += storage.check(marker if is_url(marker) else Path(marker).parent)
    return Examined(versions(), time.time(), apart, tuple(findings))


def versions() -> dict[str, str]:
    """The versions that nodes and driver should have in common; "" for what is not installed."""
    return {package: installed_version(package) for package in _COMPARED}


def check_nodes(
    nodes: Sequence[Node],
    place: str | Path,
    *,
    own: dict[str, str] | None = None,
    run: RunOnEach = run_on_each,
) -> Iterator[Finding]:
    """Versions, clock, storage, GPUs, memory, disks and open ports of each of `nodes`.

    One line a node has what is in order; what is wrong there has a line of its own. own: the
    versions that the nodes should have, by default this machine's.
    """
    own = own or versions()
    with marker_in(place) as marker:
        asked = time.time()
        replies = run(nodes, examine_node, marker)
        answered = time.time()
    middle = statistics.median([r.value.clock for r in replies if r.value] or [asked])
    for reply in replies:
        yield from _of_reply(reply, own, place, middle, answered - asked)


def _of_reply(
    reply: Reply[Examined], own: dict[str, str], place: str | Path, clock: float, took_s: float
) -> Iterator[Finding]:
    name, node = reply.node.address, reply.value
    if node is None:
        advice = "make it run tuner (cluster/Dockerfile), or take it out of the cluster"
        yield Finding("nodes", name, reply.problem, "broken", advice)
        return
    yield from _compared(name, node.versions, own)
    if node.apart:
        advice = f"mount the folder of --storage there as here: {place}"
        yield Finding("nodes", name, f"{node.apart}: {place}", "broken", advice)
    skew = abs(node.clock - clock)
    if skew > _CLOCKS_S + took_s:
        advice = "let it keep time by NTP (chrony, systemd-timesyncd)"
        yield Finding("nodes", name, f"its clock is {skew:.0f} s off", "warning", advice)
    for finding in node.findings:
        if finding.level != "ok":
            yield replace(finding, topic="nodes", name=f"{name} {finding.name}")
    if not node.apart:
        fine = (f for f in node.findings if f.level == "ok" and f.name.startswith(_SHOWN))
        in_short = "; ".join(["shares the storage", *(f"{f.name}: {f.found}" for f in fine)])
        yield Finding("nodes", name, in_short)


def _compared(name: str, node: dict[str, str], own: dict[str, str]) -> Iterator[Finding]:
    for package, here in own.items():
        installed = node.get(package, "")
        if installed != here:
            found = f"{package} {installed or 'is missing'}, and here is {here}"
            level: Level = "broken" if package == "tuner" or not installed else "warning"
            yield Finding("nodes", name, found, level, f"install {package}=={here} there")
