"""What the doctor finds, with the machine played; a real Ray is looked at in integration/."""

import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import psutil
import pytest
from synthetic import Writer, make_folder

from tuner.cluster import access
from tuner.experiment.remote.objects import Objects
from tuner.reporting.doctor import exposure, machine, storage
from tuner.reporting.doctor.examine import examine, is_broken
from tuner.spec import quotas
from tuner.trial import machine_memory

GIB = 1 << 30


@pytest.fixture(autouse=True)
def good_machine(monkeypatch):
    """Nothing of Ray runs, there is room enough, and no GPU."""
    room = SimpleNamespace(free=100 * GIB)
    monkeypatch.setattr(exposure, "sessions", list)
    monkeypatch.setattr(exposure, "forgotten_folders", lambda known: [])
    monkeypatch.setattr(exposure, "listeners", lambda known: [])
    monkeypatch.setattr(psutil, "disk_usage", lambda folder: room)
    monkeypatch.setattr(machine_memory, "free_and_all", lambda: (100 * GIB, 200 * GIB))
    monkeypatch.setattr(storage, "_latencies_ms", lambda folder: (0.5, 0.1))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(access.AUTH_MODE, raising=False)


def found(place, topic, name):
    [one] = [f for f in examine(str(place)) if (f.topic, f.name) == (topic, name)]
    return one


def test_on_a_good_machine_nothing_is_wrong(tmp_path):
    findings = examine(str(tmp_path))
    assert {finding.level for finding in findings} == {"ok"}
    assert not is_broken(findings)
    named = {(finding.topic, finding.name) for finding in findings}
    assert {("versions", n) for n in ("Python", "tuner", "torch", "ray")} <= named
    assert {("machine", n) for n in ("CPUs", "GPUs", "memory", "/dev/shm")} <= named
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "total", "level"), [(0.5, 8, "broken"), (0.9, 100, "broken"), (2, 100, "ok")]
)
def test_too_little_memory_breaks(free, total, level):
    assert machine.of_memory(free * GIB, total * GIB).level == level


def test_what_limits_this_process_is_named(tmp_path, monkeypatch):
    assert found(tmp_path, "machine", "CPUs").found.endswith(" may be used")
    quota = quotas.Limit(1, Path("/box/cpu.max"))
    limited = quotas.Limit(64 * 1024, Path("/box/memory.max")), 5
    monkeypatch.setattr(quotas, "cpu_limit", lambda *root: quota)
    monkeypatch.setattr(quotas, "memory_limit", lambda: limited)
    assert found(tmp_path, "machine", "CPUs").found.endswith(": /box/cpu.max gives 1 CPU")
    assert found(tmp_path, "machine", "memory").found.endswith(": /box/memory.max sets the limit")
    wide = quotas.Limit(1 << 60, Path("/box/memory.max")), 1 << 60
    monkeypatch.setattr(quotas, "memory_limit", lambda: wide)
    assert found(tmp_path, "machine", "memory").found.endswith(" are free")


def test_a_full_disk_breaks_and_little_shared_memory_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
    assert found(tmp_path, "storage", "disk").level == "broken"
    assert found(tmp_path, "machine", "temporary files").level == "broken"
    assert machine.of_shared_memory(1 << 20).level == "warning"


def test_where_no_more_files_can_be_made_is_told(tmp_path, monkeypatch):
    left = SimpleNamespace(f_files=5000, f_favail=3)
    monkeypatch.setattr(os, "statvfs", lambda folder: left)
    told = found(tmp_path, "storage", "disk")
    assert (told.level, told.found) == ("broken", f"3 more files can be made in {tmp_path}")
    left.f_files = left.f_favail = 0  # a filesystem that does not count them
    assert found(tmp_path, "storage", "disk").level == "ok"


def test_a_storage_that_cannot_be_written_breaks_and_a_slow_one_is_told(tmp_path, monkeypatch):
    monkeypatch.undo()
    slow = storage.of_latency(1.0, 250.0)
    told = "1.0 ms to write and sync 4 KiB, 250.0 ms to read them"
    assert (slow.level, slow.found) == ("warning", told)
    fine = found(tmp_path / "not" / "there", "storage", "writable")
    assert fine.found.endswith(f"to be made in {tmp_path}")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    broken = found(tmp_path / "file" / "results", "storage", "writable")
    assert (broken.level, "Not a directory" in broken.found) == ("broken", True)


def test_ours_would_be_open_where_the_user_has_said_so(tmp_path, monkeypatch):
    assert found(tmp_path, "open", "our Ray").level == "ok"
    monkeypatch.setenv(access.AUTH_MODE, "disabled")
    told = found(tmp_path, "open", "our Ray")
    assert (told.level, told.advice.startswith("unset RAY_AUTH_MODE")) == ("warning", True)


def test_experiments_that_are_not_simply_completed(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "experiment.json").write_text("{")
    assert found(tmp_path, "experiments", "completed").found == "0"
    damaged = found(tmp_path, "experiments", "damaged")
    assert damaged.level == "warning"
    assert damaged.found.endswith("is damaged: not JSON")
    assert os.listdir(tmp_path / "damaged") == ["experiment.json"]


def test_gpus_as_their_driver_tells_them(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559, 81000, 580.95.05'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    told = found(tmp_path / "results", "machine", "GPU 0")
    wanted = "NVIDIA H100 80GB HBM3, 81559 MiB of which 81000 are free, driver 580.95.05"
    assert told.found == wanted
    import torch

    if not torch.cuda.is_available():
        assert found(tmp_path / "results", "machine", "GPUs").level == "warning"


def test_a_bucket_is_written_and_read(monkeypatch):
    url = f"memory://{uuid4().hex}/runs"
    assert found(url, "storage", "writable").found == url
    assert found(url, "storage", "latency").level == "ok"
    assert Objects(url).names() == []
    assert [f.level for f in storage.check_store(url, slow_ms=-1)] == ["ok", "warning"]

    def refuse(self, name, data):
        raise PermissionError(0, "Access Denied")

    monkeypatch.setattr(Objects, "write", refuse)
    broken = found(url, "storage", "writable")
    assert (broken.level, broken.found) == ("broken", f"{url}: Access Denied")

    def unreachable(self):
        raise OSError(0, "no route")

    monkeypatch.setattr(Objects, "folders", unreachable)
    assert found(url, "experiments", "listed").found == f"cannot reach {url}: no route"


def test_a_bucket_for_which_something_is_not_installed_breaks():
    broken = [f for f in storage.check("zz://x") if f.level == "broken"]
    assert [finding.found[:20] for finding in broken] == ["no storage 'zz://x':"]


@pytest.mark.parametrize("name", ["it's; touch x", "-h", "$(touch x)"])
def test_how_to_go_on_is_safe_to_copy(tmp_path, name):
    Writer(make_folder(tmp_path / name)).kill()
    command = found(tmp_path, "experiments", name).found.partition(": ")[2]
    assert shlex.split(command)[-2:] == ["resume", str(tmp_path / name)]
