"""What control groups leave a process, with their files played as various systems lay them out."""

import os

import pytest

from tuner.spec.quotas import (
    count_usable_cpus,
    describe_cpus,
    find_cpu_limit,
    find_memory_limit,
)

MIB = 1 << 20
NO_LIMIT = "9223372036854771712"  # as version 1 writes it


@pytest.fixture(autouse=True)
def sixty_four_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(os, "cpu_count", lambda: 96)


@pytest.fixture
def play(tmp_path):
    """Writes a file tree: the process's groups, and the groups' files."""

    def write(groups, files):
        proc = {"proc/self/cgroup": groups}
        inside = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in {**proc, **inside}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        return tmp_path

    return write


def v2_memory(group, limit, used, *, files=0, high="max"):
    return {
        f"{group}/memory.max": limit,
        f"{group}/memory.high": high,
        f"{group}/memory.current": used,
        f"{group}/memory.stat": f"anon 5\ninactive_file {files}",
    }


def v1_memory(group, limit, used, *, files=0):
    return {
        f"memory/{group}/memory.limit_in_bytes": limit,
        f"memory/{group}/memory.usage_in_bytes": used,
        f"memory/{group}/memory.stat": f"inactive_file 7\ntotal_inactive_file {files}",
    }


SLURM = "system.slice/slurmstepd.scope/job_7"
USER = "user.slice/user-1000.slice"
ON_SYSTEMS = {
    "Docker, version 2": (
        "0::/",
        {
            "cpu.max": "200000 100000",
            **v2_memory(".", 100 * MIB, 40 * MIB, files=30 * MIB),
        },
        (2, "cpu.max"),
        (100 * MIB, 90 * MIB, "memory.max"),
    ),
    "a systemd slice, whose services have no limits": (
        f"0::/{USER}/session-2.scope",
        {
            f"{USER}/cpu.max": "150000 100000",
            f"{USER}/session-2.scope/cpu.max": "max 100000",
            **v2_memory(USER, "max", 50 * MIB, high=80 * MIB),
            **v2_memory(f"{USER}/session-2.scope", "max", 10 * MIB),
        },
        (1.5, f"{USER}/cpu.max"),
        (80 * MIB, 30 * MIB, f"{USER}/memory.high"),
    ),
    "a Slurm step, version 2: the job's limit is tighter than the step's": (
        f"0::/{SLURM}/step_0/user/task_0",
        {
            f"{SLURM}/cpu.max": "800000 100000",
            f"{SLURM}/step_0/cpu.max": "1600000 100000",
            **v2_memory(SLURM, 64 * MIB, 50 * MIB),
            **v2_memory(f"{SLURM}/step_0", 100 * MIB, 10 * MIB),
        },
        (8, f"{SLURM}/cpu.max"),
        (64 * MIB, 14 * MIB, f"{SLURM}/memory.max"),
    ),
    "a Slurm step, version 1: the outer limit is wider, but is reached first": (
        "5:memory:/slurm/uid_1/job_7/step_0\n4:cpuset:/slurm/uid_1/job_7\n2:cpu,cpuacct:/",
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
            **v1_memory("slurm/uid_1/job_7/step_0", 60 * MIB, 10 * MIB, files=MIB),
            **v1_memory("slurm/uid_1", 90 * MIB, 85 * MIB),
            **v1_memory("slurm", NO_LIMIT, 85 * MIB),
        },
        None,
        (60 * MIB, 5 * MIB, "memory/slurm/uid_1/job_7/step_0/memory.limit_in_bytes"),
    ),
    "a Kubernetes pod, version 1, which is shown its own group alone": (
        "3:memory:/kubepods/pod1/box\n2:cpu,cpuacct:/kubepods/pod1/box",
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "200000",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
            **v1_memory(".", 50 * MIB, 60 * MIB),
        },
        (2, "cpu,cpuacct/cpu.cfs_quota_us"),
        (50 * MIB, 0, "memory/memory.limit_in_bytes"),
    ),
    "a group whose folder is not there: those above it count": (
        "0::/outer/gone (deleted)",
        {"outer/cpu.max": "100000 50000"},
        (2, "outer/cpu.max"),
        None,
    ),
}


@pytest.mark.parametrize(
    ("groups", "files", "cpus", "memory"), ON_SYSTEMS.values(), ids=ON_SYSTEMS
)
def test_cpu_limit_is_the_tightest_on_the_path(play, groups, files, cpus, memory):
    root = play(groups, files)
    limit = find_cpu_limit(root)
    limited = find_memory_limit(root)
    folder = root / "sys/fs/cgroup"
    assert (limit and (limit.amount, limit.file)) == (
        cpus and (cpus[0], folder / cpus[1])
    )
    got = limited and (limited[0].amount, limited[1], limited[0].file)
    assert got == (memory and (*memory[:2], folder / memory[2]))


@pytest.mark.parametrize(
    ("quota", "cpus", "reason"),
    [
        ("max", 64, ""),
        ("6400000", 64, ""),
        ("250000", 2, "2.5 CPUs"),
        ("10000", 1, "0.1 CPUs"),
    ],
)
def test_usable_cpus_rounds_quota_down(play, quota, cpus, reason):
    root = play("0::/", {"cpu.max": f"{quota} 100000"})
    assert count_usable_cpus(root) == cpus
    because = f": {root}/sys/fs/cgroup/cpu.max gives {reason}" if reason else ""
    assert describe_cpus(root) == f"{cpus} of 96 may be used{because}"


def test_limits_without_control_groups_are_none(tmp_path):
    assert count_usable_cpus(tmp_path) == 64
    assert find_memory_limit(tmp_path) is None
