"""What each node of a joined cluster has: the same checks as of this machine, made there."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tuner.cluster.joined.nodes import Node
from tuner.cluster.joined.preflight import look, token_in
from tuner.cluster.joined.run_on_nodes import Reply, on_each
from tuner.doctor import disk, machine
from tuner.doctor import exposure as openness
from tuner.doctor import object_store as store
from tuner.doctor.finding import Finding, Level
from tuner.places import is_url

_COMPARED = ("tuner", "torch", "numpy")  # of Ray and Python the head is asked before one joins
_SHOWN = ("latency", "disk", "temporary files", "/dev/shm", "GPU", "ports")  # begin so
_CLOCKS_S = 5.0  # more apart, and the times of a journal and its files contradict each other


@dataclass(frozen=True, slots=True)
class Told:
    """What a node tells of itself. apart: why it does not share the storage, "" if it does."""

    versions: dict[str, str]
    clock: float
    apart: str
    findings: tuple[Finding, ...]


def check(nodes: Sequence[Node], storage: str | Path) -> Iterator[Finding]:
    """Versions, clock, storage, GPUs, memory, disks and open ports of each of `nodes`.

    A line a node has what is in order; what is wrong there has one of its own.
    """
    ours = versions()
    with token_in(storage) as token:
        asked = time.time()
        replies = on_each(nodes, tell, str(token))
        answered = time.time()
    middle = statistics.median([r.value.clock for r in replies if r.value] or [asked])
    for reply in replies:
        yield from _of_node(reply, ours, storage, middle, answered - asked)


def _of_node(
    reply: Reply[Told], ours: dict[str, str], storage: str | Path, clock: float, took_s: float
) -> Iterator[Finding]:
    name = reply.node.address
    told = reply.value
    if told is None:
        advice = "make it run tuner (cluster/Dockerfile), or take it out of the cluster"
        yield Finding("nodes", name, reply.problem, "broken", advice)
        return
    yield from _versions(name, told.versions, ours)
    if told.apart:
        advice = f"mount the folder of --storage there as here: {storage}"
        yield Finding("nodes", name, f"{told.apart}: {storage}", "broken", advice)
    skew = abs(told.clock - clock)
    if skew > _CLOCKS_S + took_s:
        advice = "let it keep time by NTP (chrony, systemd-timesyncd)"
        yield Finding("nodes", name, f"its clock is {skew:.0f} s off", "warning", advice)
    wrong = [finding for finding in told.findings if finding.level != "ok"]
    yield from (replace(f, topic="nodes", name=f"{name} {f.name}") for f in wrong)
    if not told.apart:
        fine = (f for f in told.findings if f.level == "ok" and f.name.startswith(_SHOWN))
        yield Finding("nodes", name, "; ".join(["shares the storage", *map(_in_short, fine)]))


def _in_short(finding: Finding) -> str:
    return f"{finding.name}: {finding.found}"


def _versions(name: str, theirs: dict[str, str], ours: dict[str, str]) -> Iterator[Finding]:
    for package, here in ours.items():
        there = theirs.get(package, "")
        if there != here:
            found = f"{package} {there or 'is missing'}, and here is {here}"
            level: Level = "broken" if package == "tuner" or not there else "warning"
            yield Finding("nodes", name, found, level, f"install {package}=={here} there")


def tell(token: str) -> Told:
    """On a node: what it tells of itself."""
    findings = [*machine.check(), *openness.on_a_node()]
    apart, _ = look(token, "tuner")
    if not apart:
        findings += store.check(token) if is_url(token) else disk.check(Path(token).parent)
    return Told(versions(), time.time(), apart, tuple(findings))


def versions() -> dict[str, str]:
    """The versions that nodes and driver should have in common; "" for what is not installed."""
    found = {}
    for package in _COMPARED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found
