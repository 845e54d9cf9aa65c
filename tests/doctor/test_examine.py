"""What the doctor finds, with the machine played; a real Ray is looked at in integration/."""

import math
import os
from importlib.metadata import PackageNotFoundError
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tuner.cluster import access
from tuner.cluster.sessions import Listener, Session
from tuner.doctor import cluster as joined
from tuner.doctor import disk, machine, versions
from tuner.doctor import exposure as openness
from tuner.doctor import object_store as store
from tuner.doctor.examine import examine, is_broken
from tuner.record.remote.objects import Objects
from tuner.trial import machine_memory

GIB = 1 << 30


@pytest.fixture(autouse=True)
def good_machine(monkeypatch):
    """Nothing of Ray runs, there is room enough, and no GPU."""
    room = SimpleNamespace(free=100 * GIB, total=200 * GIB, available=100 * GIB)
    monkeypatch.setattr(openness, "sessions", list)
    monkeypatch.setattr(openness, "forgotten_folders", lambda known: [])
    monkeypatch.setattr(openness, "listeners", lambda known: [])
    monkeypatch.setattr(disk, "_latencies_ms", lambda folder: (0.5, 0.1))
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: room)
    monkeypatch.setattr(machine.psutil, "disk_usage", lambda folder: room)
    monkeypatch.setattr(machine_memory, "_GROUP", Path("/nowhere"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(access.AUTH_MODE, raising=False)


def found(storage, topic, name):
    [one] = [f for f in examine(str(storage)) if (f.topic, f.name) == (topic, name)]
    return one


def test_on_a_good_machine_nothing_is_wrong(tmp_path):
    findings = examine(str(tmp_path))
    assert {finding.level for finding in findings} == {"ok"}
    assert not is_broken(findings)
    named = {(finding.topic, finding.name) for finding in findings}
    assert {("versions", n) for n in ("Python", "tuner", "torch", "ray")} <= named
    assert {("machine", n) for n in ("CPUs", "GPUs", "memory", "/dev/shm")} <= named
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_missing_or_of_another_version_breaks(tmp_path, monkeypatch):
    def version(name):
        if name == "click":
            raise PackageNotFoundError
        return {"ray": "1.0.0", "torch": "2.13.0+cu130"}.get(name, "99")

    monkeypatch.setattr(versions, "version", version)
    ray = found(tmp_path, "versions", "ray")
    assert (ray.level, ray.found) == ("broken", "1.0.0, must be >=2.50")
    assert ray.advice == 'pip install "ray[tune]>=2.50"'
    assert found(tmp_path, "versions", "click").found.startswith("not installed")
    assert found(tmp_path, "versions", "torch").level == "ok"


@pytest.mark.parametrize(
    ("free", "total", "level"), [(0.5, 8, "broken"), (0.9, 100, "broken"), (2, 100, "ok")]
)
def test_too_little_memory_breaks(tmp_path, monkeypatch, free, total, level):
    memory = SimpleNamespace(available=free * GIB, total=total * GIB)
    monkeypatch.setattr(machine_memory.psutil, "virtual_memory", lambda: memory)
    assert found(tmp_path, "machine", "memory").level == level


def test_a_full_disk_breaks_and_little_shared_memory_is_told(tmp_path, monkeypatch):
    full = SimpleNamespace(free=1 << 20)
    monkeypatch.setattr(machine.psutil, "disk_usage", lambda folder: full)
    assert found(tmp_path, "storage", "disk").level == "broken"
    assert found(tmp_path, "machine", "temporary files").level == "broken"
    assert found(tmp_path, "machine", "/dev/shm").level == "warning"


def test_a_storage_that_cannot_be_written_breaks_and_a_slow_one_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_latencies_ms", lambda folder: (1.0, 250.0))
    slow = found(tmp_path / "not" / "there", "storage", "latency")
    told = "1.0 ms to write and sync 4 KiB, 250.0 ms to read them"
    assert (slow.level, slow.found) == ("warning", told)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / "file").touch()
    broken = found(tmp_path / "file" / "results", "storage", "writable")
    assert (broken.level, "Not a directory" in broken.found) == ("broken", True)


def test_what_runs_and_what_is_left_over(tmp_path, monkeypatch):
    ours = [Session(7, (8, 9), tmp_path / "a"), Session(None, (5, 6), None)]
    monkeypatch.setattr(openness, "sessions", lambda: ours)
    monkeypatch.setattr(openness, "forgotten_folders", lambda known: [Path("/tmp/tuner-x")])
    assert found(tmp_path, "Ray", "running").found == "2 processes of the driver 7"
    left = [f for f in examine(str(tmp_path)) if f.name == "left over"]
    assert [f.level for f in left] == ["warning", "warning"]
    assert [f.advice for f in left] == ["end them: kill 5 6", "remove them: rm -r /tmp/tuner-x"]


@pytest.mark.parametrize(
    ("address", "token", "level", "who"),
    [
        ("127.0.0.1", True, "ok", ""),
        ("::", True, "ok", ""),
        ("127.0.0.1", False, "warning", "every user of this machine can run code"),
        ("10.0.0.1", False, "warning", "every machine that reaches it can run code"),
    ],
)
def test_what_is_open_to_whom(tmp_path, monkeypatch, address, token, level, who):
    two = [Listener("raylet", ip_address(address), port, token) for port in (70, 71)]
    monkeypatch.setattr(openness, "listeners", lambda known: two)
    told = found(tmp_path, "open", "all addresses" if address == "::" else address)
    assert told.found == f"raylet, with{'' if token else 'out'} a token: 70, 71"
    assert (told.level, told.advice.startswith(who)) == (level, True)


def test_on_a_node_what_asks_for_a_token_is_counted_and_what_does_not_is_named(monkeypatch):
    asking = [Listener("raylet", ip_address(on), 70, True) for on in ("::", "10.0.0.1", "::1")]
    open_to_all = Listener("gcs_server", ip_address("::"), 6379, False)
    monkeypatch.setattr(openness, "listeners", lambda known: [*asking, open_to_all])
    named, counted = openness.on_a_node()
    assert (named.level, named.found) == ("warning", "gcs_server, without a token: 6379")
    assert counted.found == "2 of Ray open to its network, with a token"
    assert counted.level == "ok"


@pytest.mark.parametrize(
    ("alive", "leaves", "said", "level"),
    [
        (True, None, "4 CPUs, 1 GPUs, 2.0 GiB of memory", "ok"),
        (True, math.inf, "4 CPUs, 1 GPUs, 2.0 GiB of memory; leaves", "warning"),
        (False, None, "gone", "warning"),
    ],
)
def test_a_node_of_a_cluster_is_told_with_what_it_has(alive, leaves, said, level):
    has = {"CPU": 4.0, "GPU": 1.0, "memory": 2.0 * GIB}
    told = {"NodeID": "f00", "NodeManagerAddress": "10.0.0.1", "Resources": has, "Alive": alive}
    finding = joined._node(told, leaves)
    assert (finding.name, finding.found, finding.level) == ("10.0.0.1", said, level)


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
    monkeypatch.setattr(store, "_SLOW_MS", -1)
    assert found(url, "storage", "latency").level == "warning"

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
    broken = [f for f in store.check("zz://x") if f.level == "broken"]
    assert [finding.found[:20] for finding in broken] == ["no storage 'zz://x':"]
