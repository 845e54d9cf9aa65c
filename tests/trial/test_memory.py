"""What a process holds, how it is released, and who is ended when memory runs short."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from threading import Semaphore
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from forked import said_by

from tuner.spec import quotas
from tuner.trial import memory
from tuner.trial.memory import (
    MemoryWatch,
    keep_freed,
    measure_held_bytes,
    measure_held_mib,
    release_memory,
)
from tuner.trial.worker_death import NOTES, build_death_failure

MIB = 1 << 20
GIB = 1 << 30
LIMIT_S = 60
WORKER = """
import sys
held = b"x" * (int(sys.argv[1]) << 20)
print(flush=True)
sys.stdin.read()
"""


def watched(watch, work):
    watch.begin()
    kept = work()
    return watch.end(), kept


# In processes of their own: in this one, earlier tests have left memory to fill first, and threads
# of theirs may take some at any time


def peaks():
    torch.ones(MIB, dtype=torch.uint8).sum()  # the first use loads code, which stays resident
    watch = MemoryWatch("cpu")
    small, _ = watched(watch, lambda: None)
    large, _ = watched(watch, lambda: torch.ones(64 * MIB, dtype=torch.uint8).sum())
    again, _ = watched(watch, lambda: None)
    print(json.dumps([small, large, again]))


def test_memory_watch_measures_the_peak_of_each_epoch():
    small, large, again = json.loads(said_by(peaks))
    assert large["peak_memory_mib"] >= small["memory_mib"] + 60
    assert again["peak_memory_mib"] <= large["peak_memory_mib"] - 60
    assert large["memory_mib"] < small["memory_mib"] + 30
    assert set(large) == {"memory_mib", "peak_memory_mib"}


def test_watch_on_cuda_measures_device_and_host(monkeypatch):
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        reset_peak_memory_stats=lambda device: None,
        memory_allocated=lambda device: 100 * MIB,
        max_memory_allocated=lambda device: 200 * MIB,
        get_device_properties=lambda device: SimpleNamespace(total_memory=800 * MIB),
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(memory, "_measure_resident_mib", lambda: 300.0)
    measured, _ = watched(MemoryWatch("cuda"), lambda: None)
    on_device = {"memory_mib": 100, "peak_memory_mib": 200, "peak_memory_share": 0.25}
    assert measured == {**on_device, "host_memory_mib": 300}


def take_and_map(file):
    before = measure_held_mib()
    taken = np.ones(64 << 20, np.uint8)
    print(measure_held_mib() - before)
    np.save(file, taken)
    del taken
    mapped = np.load(file, mmap_mode="r")
    resident = psutil.Process().memory_info().rss
    mapped.sum()
    print((psutil.Process().memory_info().rss - resident) / MIB)
    print(measure_held_mib() - before)


def test_held_mib_excludes_mapped_files(tmp_path):
    taken, mapped, held = map(float, said_by(take_and_map, tmp_path / "mapped.npy").split())
    assert 60 < taken < 80
    assert mapped > 60
    assert held < 20


def test_held_bytes_of_ended_process_is_0():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert measure_held_bytes(gone.pid) == 0


def take_again():
    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        _copies = [bytearray(4 * MIB) for _ in range(8)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    anew = [faults() for _ in range(4)][-1]
    keep_freed()
    again = [faults() for _ in range(4)][-1]
    held = measure_held_mib()
    release_memory()
    print(json.dumps([anew, again, held - measure_held_mib()]))


def test_keep_freed_reuses_memory_until_release():
    anew, again, released = json.loads(said_by(take_again))
    assert anew > 1000  # pages; a large one may count for several
    assert again < 100
    assert released > 20


# --- the machine's memory


@pytest.fixture
def worker():
    """Starts a process of a title that holds so many MiB."""
    processes = []

    def start(title, mib):
        process = subprocess.Popen(
            [title, "-S", "-c", WORKER, str(mib)],  # its command line is known by the title alone
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        process.stdout.readline()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("limit", "counts"), [(1_000_000, True), (1 << 60, False)])
def test_free_and_all_respects_control_group_limit(limit, counts):
    limited = quotas.Limit(limit, Path("memory.max")), limit - 500_000
    measured = memory.measure_memory(lambda: limited)
    assert (measured == (500_000, 1_000_000)) is counts
    assert measured[1] <= psutil.virtual_memory().total


def test_watched_ends_the_largest_worker_and_writes_a_note(worker, tmp_path, monkeypatch):
    idle = worker("ray::IDLE", 300)
    large = worker("ray::LearnerTrial.step", 200)
    agent = worker("ray::RuntimeEnvAgent", 300)
    other = worker("python", 400)
    small = worker("ray::LearnerTrial.step", 20)
    pids = [process.pid for process in (idle, agent, large, other, small)]
    free = [2 * GIB]
    measured = Semaphore(0)

    def free_and_all():
        measured.release()
        return free[0], 32 * GIB

    monkeypatch.setenv(NOTES, str(tmp_path))
    with memory.watch_memory(tmp_path, lambda: pids, free_and_all):
        for _ in range(2):  # as it asks again, it has ended nobody before
            assert measured.acquire(timeout=LIMIT_S)
        assert large.poll() is None
        free[0] = GIB // 2
        pids_seen = large.wait(LIMIT_S)
        free[0] = 2 * GIB
    assert pids_seen == -9
    assert [process.poll() for process in (idle, agent, other, small)] == [None] * 4
    [note] = tmp_path.iterdir()
    assert note.name == f"{large.pid}-oom"
    death = build_death_failure(
        RuntimeError(f"its worker process has died. pid: {large.pid} namespace: x")
    )
    assert death.kind == "oom"
    assert death.message.endswith(" MiB, the most of all workers: memory ran out")
    assert build_death_failure(RuntimeError(f"pid: {small.pid} has died")).kind == "crash"


def test_watched_counts_children_of_a_worker(tmp_path):
    held = "held = b'x' * (300 << 20); print(flush=True); import time; time.sleep(60)"
    command = [sys.executable, "-S", "-c", held]
    parent = f"import subprocess; subprocess.run({command!r})"
    title = "ray::CommandTrial.step"
    worker = subprocess.Popen([title, "-S", "-c", parent], executable=sys.executable, stdout=-1)
    worker.stdout.readline()
    [child] = psutil.Process(worker.pid).children()
    with memory.watch_memory(tmp_path, lambda: [worker.pid], lambda: (0, 32 * GIB)):
        worker.wait(LIMIT_S)
    child.kill()
    worker.stdout.close()
    [note] = tmp_path.glob(f"{worker.pid}-*")
    assert re.search(r"ended at 3\d\d MiB", note.read_text())
