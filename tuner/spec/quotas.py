"""CPUs and memory that control groups leave this process (man 7 cgroups). root: for tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuner.wording import format_amount

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a control group may use, in CPUs or bytes, and the file that says so."""

    amount: float
    file: Path


def count_usable_cpus(root: Path = ROOT) -> int:
    """How many CPUs this process may keep busy, at least 1; a fractional quota is rounded down."""
    quota = find_cpu_limit(root)
    return max(1, int(quota.amount)) if quota else len(os.sched_getaffinity(0))


def describe_cpus(root: Path = ROOT) -> str:
    """How many CPUs may be used, of how many, and the quota if that is why."""
    quota = find_cpu_limit(root)
    text = f"{count_usable_cpus(root)} of {os.cpu_count()} may be used"
    return (
        f"{text}: {quota.file} gives {format_amount(quota.amount, 'CPU')}"
        if quota
        else text
    )


def find_cpu_limit(root: Path) -> Limit | None:
    """The tightest CPU quota, or None without one below the CPUs that the process may run on."""
    limits = []
    for group in _list_groups("cpu", root):
        version_1 = [
            _read_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")
        ]
        version_2 = _read_text(group / "cpu.max").split()
        for name, numbers in (("cpu.cfs_quota_us", version_1), ("cpu.max", version_2)):
            if numbers and all(map(str.isdigit, numbers)):  # "max" and -1 are no limits
                quota, period = map(int, numbers)
                limits.append(Limit(quota / period, group / name))
    tightest = min(limits, key=lambda limit: limit.amount, default=None)
    return (
        tightest
        if tightest and tightest.amount < len(os.sched_getaffinity(0))
        else None
    )


def find_memory_limit(root: Path = ROOT) -> tuple[Limit, int] | None:
    """The tightest memory limit, and the bytes left below the first that is reached; or None.

    Reclaimable files are not counted as used. memory.high slows, and so counts, too.
    """
    limits = []
    left = []
    for group in _list_groups("memory", root):
        stat = dict(
            re.findall(
                r"^(\w+) (\d+)$", _read_text(group / "memory.stat"), re.MULTILINE
            )
        )
        for names, usage, reclaimable in (
            (("memory.max", "memory.high"), "memory.current", "inactive_file"),
            (
                ("memory.limit_in_bytes",),
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
        ):
            used = int(_read_text(group / usage) or 0) - int(stat.get(reclaimable, 0))
            for name in names:
                if (limit := _read_text(group / name)).isdigit():  # "max" is no limit
                    limits.append(Limit(int(limit), group / name))
                    left.append(max(0, int(limit) - used))
    return (min(limits, key=lambda limit: limit.amount), min(left)) if limits else None


def _list_groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of this process's own group, and those above it, that may limit `controller`."""
    top = root / "sys/fs/cgroup"
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if not names or controller in names.split(","):  # version 2 has no names
            # A container may see its own group as the mounted one, under any path
            group = PurePosixPath(path.lstrip("/"))
            yield from (top / names / folder for folder in (group, *group.parents))


def _read_text(file: Path) -> str:
    """What a file of the kernel says; "" where there is none, as on macOS."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
