"""What would break a search here, and what is worth knowing before one: checks without a Ray.

Each check is a function that yields findings; a cluster's are asked of the cluster. Nothing is
changed but a file of 4 KiB, written to the storage and removed.
"""

from __future__ import annotations

import csv
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any, Literal

import psutil
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tuner import access, cluster
from tuner.errors import UsageError
from tuner.events import COMPLETED, INTERRUPTED
from tuner.listing import list_experiments
from tuner.reporting.wording import program
from tuner.sessions import Listener, Session, forgotten_folders, listeners, sessions
from tuner.storage import storage_folder

Level = Literal["ok", "warning", "broken"]

_GIB = 1 << 30
_LEAST_MEMORY = 1 * _GIB  # Ray's daemons, its object store, the driver and one worker take as much
_RAYS_MEMORY_LIMIT = 95  # percent in use, above which Ray kills workers
_LEAST_DISK = _GIB // 2
_OBJECT_STORE = cluster.OBJECT_STORE_BYTES
_SLOW_STORAGE_MS = 100
_PROBE_S = 60  # how long a cluster may take to answer one who shows no token


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` says what to do where it is not "ok".

    level: "broken" where a search would not work, "warning" where it might not, or be slow, or be
    open to others.
    """

    topic: str
    name: str
    found: str
    level: Level = "ok"
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `doctor --json` says of it."""
        return asdict(self)


def examine(storage: str | None = None, address: str | None = None) -> list[Finding]:
    """All findings, of this machine and of the cluster at `address` if one is given.

    `storage` defaults to $TUNER_STORAGE, else ./results. Starts no Ray.
    """
    known = sessions()
    return [
        *_versions(),
        *_machine(),
        *_storage(storage_folder(storage)),
        *_our_rays(known),
        *_open_ports(known),
        *(_cluster(address) if address else ()),
        *_experiments(storage),
    ]


def is_broken(findings: list[Finding]) -> bool:
    """Whether any of it would break a search."""
    return any(finding.level == "broken" for finding in findings)


def _versions() -> Iterator[Finding]:
    """Python, tuner, torch and Ray, and whatever else of tuner's requirements is not met."""
    asked = SpecifierSet(metadata("tuner")["Requires-Python"])
    python = platform.python_version()
    yield _version("Python", python, asked, "install another Python")
    yield Finding("versions", "tuner", version("tuner"))
    for text in requires("tuner") or ():
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            there = ""
        told = _version(
            requirement.name, there, requirement.specifier, f'pip install "{requirement}"'
        )
        if told.level != "ok" or requirement.name in ("torch", "ray"):
            yield told


def _version(name: str, there: str, asked: SpecifierSet, advice: str) -> Finding:
    if there and asked.contains(there, prereleases=True):
        return Finding("versions", name, there)
    found = f"{there or 'not installed'}, must be {asked}"
    return Finding("versions", name, found, "broken", advice)


def _machine() -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0))
    yield Finding("machine", "CPUs", f"{cpus} of {os.cpu_count()} may be used")
    yield from _gpus()
    yield _memory()
    yield _disk("machine", "temporary files", Path(access.TEMPORARY), "remove files there")
    yield from _shared_memory()


def _gpus() -> Iterator[Finding]:
    """Each NVIDIA GPU, as its driver tells; whether torch can use them is torch's to say."""
    fields = "name,memory.total,memory.free,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        yield Finding("machine", "GPUs", "none")
        return
    for number, row in enumerate(csv.reader(told.stdout.splitlines(), skipinitialspace=True)):
        name, total, free, driver = row
        found = f"{name}, {total} MiB of which {free} are free, driver {driver}"
        yield Finding("machine", f"GPU {number}", found)
    import torch

    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} cannot use them"
        advice = "install a torch that is built for this driver's CUDA, or search with --gpus 0"
        yield Finding("machine", "GPUs", found, "warning", advice)


def _memory() -> Finding:
    there = psutil.virtual_memory()
    free, total = there.available, there.total
    with suppress(OSError, ValueError):  # a container's limit, where there is one
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        free, total = min(free, max(0, limit - used)), min(total, limit)
    found = f"{_size(free)} of {_size(total)} are free"
    if free < _LEAST_MEMORY:
        return Finding("machine", "memory", found, "broken", "end other programs")
    if 100 * (total - free) > _RAYS_MEMORY_LIMIT * total:
        advice = f"end other programs: above {_RAYS_MEMORY_LIMIT} % in use Ray kills workers"
        return Finding("machine", "memory", found, "broken", advice)
    return Finding("machine", "memory", found)


def _shared_memory() -> Iterator[Finding]:
    with suppress(OSError):
        free = psutil.disk_usage("/dev/shm").free
        found = f"{_size(free)} are free"
        if free >= _OBJECT_STORE:
            yield Finding("machine", "/dev/shm", found)
        else:
            advice = f"make it larger (docker run --shm-size): Ray wants {_size(_OBJECT_STORE)}"
            yield Finding("machine", "/dev/shm", found, "warning", advice)


def _disk(topic: str, name: str, folder: Path, advice: str) -> Finding:
    usage = psutil.disk_usage(str(folder))
    found = f"{_size(usage.free)} are free in {folder}"
    level: Level = "broken" if usage.free < _LEAST_DISK else "ok"
    return Finding(topic, name, found, level, advice if level == "broken" else "")


def _storage(folder: Path) -> Iterator[Finding]:
    """Whether experiments can be written to `folder`, or to where it will be made, and how fast."""
    there = folder.resolve()
    while not there.exists():
        there = there.parent
    found = str(folder) if folder.exists() else f"{folder}, to be made in {there}"
    try:
        latency = _write_latency_ms(there)
    except OSError as error:
        advice = "give another folder with --storage or $TUNER_STORAGE, or make this one writable"
        yield Finding("storage", "writable", f"{found}: {error.strerror}", "broken", advice)
        return
    yield Finding("storage", "writable", found)
    slow = latency > _SLOW_STORAGE_MS
    advice = "a faster disk, or a folder on this machine: every second the journal is synced to it"
    told = f"{latency:.1f} ms to write and sync 4 KiB"
    yield Finding("storage", "latency", told, *(("warning", advice) if slow else ()))
    yield _disk("storage", "disk", there, "remove old experiments, or give another --storage")


def _write_latency_ms(folder: Path, times: int = 5) -> float:
    """The median of writing and syncing 4 KiB."""
    took = []
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".tuner-doctor-") as file:
        for _ in range(times):
            begin = time.perf_counter()
            file.write(os.urandom(4096))
            file.flush()
            os.fsync(file.fileno())
            took.append(1000 * (time.perf_counter() - begin))
    return statistics.median(took)


def _our_rays(known: list[Session]) -> Iterator[Finding]:
    running = [session for session in known if session.driver]
    if not known:
        yield Finding("Ray", "ours", "none is running")
    for session in running:
        found = f"{len(session.pids)} processes of the driver {session.driver}"
        yield Finding("Ray", "running", found)
    for session in known:
        if session not in running:
            advice = f"end them: kill {' '.join(map(str, session.pids))}"
            found = f"{len(session.pids)} processes whose driver is gone"
            yield Finding("Ray", "left over", found, "warning", advice)
    if folders := forgotten_folders(known):
        advice = f"remove them: rm -r {' '.join(map(str, folders))}"
        found = f"{len(folders)} temporary folders whose driver is gone"
        yield Finding("Ray", "left over", found, "warning", advice)


def _open_ports(known: list[Session]) -> Iterator[Finding]:
    """What the Ray that we would start lets in, and what those that run do."""
    mode = os.environ.get(access.AUTH_MODE, "token")
    found = f"would listen on 127.0.0.1 alone, on ports that are free then, {_who(mode == 'token')}"
    if mode == "token":
        yield Finding("open", "our Ray", found)
    else:
        advice = f"unset {access.AUTH_MODE}, so that each Ray of ours has a token of its own"
        yield Finding("open", "our Ray", found, "warning", advice)
    by_process: dict[tuple[str, str, bool], list[Listener]] = {}
    for listener in listeners(known):
        key = listener.reach, listener.process, listener.token
        by_process.setdefault(key, []).append(listener)
    for those in by_process.values():
        yield _open_to(those)


def _open_to(alike: list[Listener]) -> Finding:
    """What listeners of one kind of process, on one address, let in."""
    one = alike[0]
    found = f"{one.process}, {_who(one.token)}: {', '.join(str(each.port) for each in alike)}"
    if one.token:
        return Finding("open", one.reach, found)
    who = "every machine that reaches it" if one.is_open else "every user of this machine"
    advice = f"{who} can run code in it: start it with {access.AUTH_MODE}=token"
    return Finding("open", one.reach, found, "warning", advice)


def _who(token: bool) -> str:
    return "with a token" if token else "without a token"


def _cluster(address: str) -> Iterator[Finding]:
    """The running cluster at `address`: whether it lets us in, whom else, and what it has."""
    try:
        with cluster.connect(address):
            import ray

            head = ray.get_runtime_context().gcs_address
            yield Finding("cluster", "joined", f"{head}, Ray {ray.__version__} as here")
            for node in ray.nodes():
                yield _node(node)
    except UsageError as error:
        advice = "check address, token, and that Ray and Python are of the cluster's versions"
        yield Finding("cluster", "joined", " ".join(str(error).split()), "broken", advice)
        return
    if _lets_in_without_token(head):
        advice = (
            f"everyone who reaches it can run code in it: start it with {access.AUTH_MODE}=token"
        )
        yield Finding("cluster", "authentication", "without a token", "warning", advice)
    else:
        yield Finding("cluster", "authentication", "with a token")


def _node(node: dict[str, Any]) -> Finding:
    has = node["Resources"]
    found = f"{has.get('CPU', 0):g} CPUs, {has.get('GPU', 0):g} GPUs"
    found += f", {_size(has['memory'])} of memory" if "memory" in has else ""
    if node["Alive"]:
        return Finding("cluster", node["NodeManagerAddress"], found)
    return Finding("cluster", node["NodeManagerAddress"], "gone", "warning", "restart it")


def _lets_in_without_token(head: str) -> bool:
    """Whether a client that shows no token gets an answer from the cluster's head."""
    code = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1])"
    told = (access.TOKEN, access.TOKEN_PATH)
    environment = {name: value for name, value in os.environ.items() if name not in told}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, head],
            env={**environment, access.AUTH_MODE: "disabled"},
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _experiments(storage: str | None) -> Iterator[Finding]:
    """Those that are not simply completed, and how many are."""
    listed = list_experiments(storage)
    completed = sum(entry.status == COMPLETED for entry in listed)
    yield Finding("experiments", "completed", str(completed))
    for entry in listed:
        name = entry.name
        if entry.problem:
            advice = "its files are as they were; tuner changes none of a damaged experiment"
            yield Finding("experiments", name, f"damaged: {entry.problem}", "warning", advice)
        elif entry.status == INTERRUPTED:
            go_on = f"{program()} resume {name}"
            yield Finding("experiments", name, f"interrupted; go on with: {go_on}")
        elif entry.status != COMPLETED:
            yield Finding("experiments", name, entry.status)


def _size(count: float) -> str:
    return f"{count / _GIB:.1f} GiB"
