"""Checks for what would break a search: versions, memory, GPUs, storage, nodes of a cluster.

Starts no Ray, and changes nothing except a small file that it writes to the storage and removes.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import psutil

from tuner import ray_compat
from tuner.cluster import access
from tuner.cluster.connect import connect
from tuner.cluster.nodes import Node, list_nodes
from tuner.cluster.tasks import Reply, RunOnEach, run_on_each
from tuner.errors import UsageError
from tuner.experiment.shared_storage import (
    find_existing_parent,
    find_sharing_fault,
    write_marker,
)
from tuner.places import find_default_storage, is_url
from tuner.spec import quotas
from tuner.trial import memory_monitor
from tuner.wording import clean_text, format_amount, format_rows, format_size

GIB = 1 << 30

_LEAST_MEMORY = GIB  # of Ray's daemons, its object store, the driver and one worker
_LEAST_DISK = GIB // 2
_PROBE_S = 60  # for a cluster to answer a client without a token
# Those of Ray and Python are compared by joining
_COMPARED = ("tuner", "torch", "numpy")

Level = Literal["ok", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. advice: what to do unless it is "ok".

    level: "broken" if a search would not work, "warning" if it might not or is open to others.
    """

    topic: str
    name: str
    found: str
    level: Level = "ok"
    advice: str = ""


def check_setup(storage: str | None, address: str | None = None) -> list[Finding]:
    """All findings of this machine, and of the cluster at `address`."""
    storage = storage or find_default_storage()
    requires_token = os.environ.get(access.AUTH_MODE, "token") == "token"
    unset = f"unset {access.AUTH_MODE}, so that each local Ray has a token"
    return [
        Finding("versions", "Python", platform.python_version()),
        *(
            Finding("versions", name, version(name))
            for name in ("tuner", "torch", "ray")
        ),
        *check_machine(),
        check_storage(storage),
        _check_token("security", "local Ray", requires_token, unset),
        *(check_cluster(address, storage) if address else ()),
    ]


def check_machine() -> Iterator[Finding]:
    yield Finding("machine", "CPUs", quotas.describe_cpus())
    yield from _check_gpus()
    free, total = memory_monitor.measure_memory()
    broken = (
        ("broken", "end other programs, or raise its limit")
        if free < _LEAST_MEMORY
        else ()
    )
    yield Finding(
        "machine",
        "memory",
        f"{format_size(free)} of {format_size(total)} are free",
        *broken,
    )
    temporary = Path(access.TEMPORARY)
    try:
        with TemporaryDirectory(dir=temporary):
            yield _check_space(
                "machine", "temporary files", temporary, "remove files there"
            )
    except OSError as error:
        found = f"no folder can be made in {temporary}: {error.strerror}"
        yield Finding("machine", "temporary files", found, "broken", "make room there")


def _check_gpus() -> Iterator[Finding]:
    """Each NVIDIA GPU that the driver lists, and whether torch can use them."""
    fields = "name,memory.total,memory.free,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        yield Finding("machine", "GPUs", "none")
        return
    for number, row in enumerate(done.stdout.splitlines()):
        name, total, free, driver = row.split(", ")
        found = f"{name}, {total} of which {free} are free, driver {driver}"
        yield Finding("machine", f"GPU {number}", found)
    import torch

    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} cannot use them"
        advice = "install a torch that is built for this driver's CUDA, or search with --gpus 0"
        yield Finding("machine", "GPUs", found, "warning", advice)


def check_storage(storage: str) -> Finding:
    """Whether experiments can be written to this URL or folder, which need not exist yet."""
    try:
        with write_marker(storage) as marker:
            problem = find_sharing_fault(marker)
    except UsageError as error:
        problem = str(error)
    if problem:
        advice = "give another with --storage or $TUNER_STORAGE, or what it needs: a package, a key"
        return Finding("storage", "writable", f"{storage}: {problem}", "broken", advice)
    if is_url(storage):
        return Finding("storage", "writable", storage)
    advice = "remove old experiments, or give another --storage"
    return _check_space("storage", "writable", find_existing_parent(storage), advice)


def _check_space(topic: str, name: str, folder: Path, advice: str) -> Finding:
    free = psutil.disk_usage(str(folder)).free
    broken = ("broken", advice) if free < _LEAST_DISK else ()
    return Finding(topic, name, f"{format_size(free)} are free in {folder}", *broken)


def _check_token(topic: str, name: str, requires_token: bool, advice: str) -> Finding:
    if requires_token:
        return Finding(topic, name, "with a token")
    return Finding(topic, name, "without a token", "warning", advice)


def check_cluster(address: str, storage: str) -> Iterator[Finding]:
    """Whether this machine can join the cluster at `address`, who else can, and its nodes."""
    try:
        with connect(address):
            import ray

            head = ray.get_runtime_context().gcs_address
            yield Finding("cluster", "joined", f"{head}, Ray {ray.__version__} as here")
            nodes = [node for node in list_nodes() if node.cpus]
            yield from check_nodes(nodes, storage)
    except UsageError as error:
        found, _, advice = str(error).partition(": ")
        yield Finding("cluster", "joined", found, "broken", advice)
        return
    open_to_all = (
        f"anyone who reaches it can run code: start it with {access.AUTH_MODE}=token"
    )
    yield _check_token(
        "cluster", "authentication", not _can_join_without_token(head), open_to_all
    )


def _can_join_without_token(head: str) -> bool:
    tokens = (access.TOKEN, access.TOKEN_PATH)
    environment = {
        name: value for name, value in os.environ.items() if name not in tokens
    }
    environment[access.AUTH_MODE] = "disabled"
    command = [sys.executable, "-c", ray_compat.PROBE, head]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=_PROBE_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@dataclass(frozen=True, slots=True)
class Examined:
    """The report of a node. apart: why it does not share the storage, or ""."""

    versions: dict[str, str]
    apart: str
    findings: tuple[Finding, ...]


def examine_node(marker: str) -> Examined:
    """On a node: its versions, its machine, and whether it sees the `marker` in the storage."""
    return Examined(list_versions(), find_sharing_fault(marker), tuple(check_machine()))


def list_versions() -> dict[str, str]:
    """The versions that nodes and driver should have in common."""
    return {package: version(package) for package in _COMPARED}


def check_nodes(
    nodes: Sequence[Node],
    storage: str | Path,
    *,
    here: dict[str, str] | None = None,
    run: RunOnEach = run_on_each,
) -> Iterator[Finding]:
    """A line for each node with its GPUs and memory, and one for each of its faults."""
    with write_marker(storage) as marker:
        replies = run(nodes, examine_node, marker)
    for reply in replies:
        yield from _check_reply(reply, here or list_versions(), storage)


def _check_reply(
    reply: Reply[Examined], here: dict[str, str], storage: str | Path
) -> Iterator[Finding]:
    name = reply.node.address
    node = reply.value
    if node is None:
        advice = "make it run tuner (cluster/Dockerfile), or take it out of the cluster"
        yield Finding("nodes", name, reply.problem, "broken", advice)
        return
    for package, version_here in here.items():
        if (version_there := node.versions[package]) != version_here:
            found = f"{package} {version_there}, and here is {version_here}"
            level: Level = "broken" if package == "tuner" else "warning"
            yield Finding(
                "nodes", name, found, level, f"install {package}=={version_here} there"
            )
    if node.apart:
        advice = f"mount the folder of --storage there as here: {storage}"
        yield Finding("nodes", name, f"{node.apart}: {storage}", "broken", advice)
    for finding in node.findings:
        if finding.level != "ok":
            yield replace(finding, topic="nodes", name=f"{name} {finding.name}")
    if not node.apart:
        fine = (f"{f.name}: {f.found}" for f in node.findings if f.level == "ok")
        yield Finding("nodes", name, "; ".join(["shares the storage", *fine]))


def format_findings(findings: Sequence[Finding]) -> str:
    """A row for each finding, a line of advice for each that is not "ok", and the verdict."""
    rows = [
        tuple(map(clean_text, (f.topic, f.name, f.level, f.found))) for f in findings
    ]
    faults = [finding for finding in findings if finding.level != "ok"]
    advice = [
        f"{f.level}  {clean_text(f'{f.topic}, {f.name}: {f.advice}')}" for f in faults
    ]
    warnings = f", {format_amount(len(faults), 'warning')}" if faults else ""
    verdict = f"Nothing would break a search{warnings}."
    if broken := sum(fault.level == "broken" for fault in faults):
        verdict = f"A search would not work: {format_amount(broken, 'finding')}."
    return "\n".join(
        [*format_rows(rows), "", *advice, *([""] if advice else []), verdict]
    )
