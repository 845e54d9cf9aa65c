"""What a process holds, and how it is released."""

import json
import resource
import subprocess
from types import SimpleNamespace

import numpy as np
import psutil
import torch
from forked import said_by

from tuner.trial import memory
from tuner.trial.memory import (
    MemoryWatch,
    keep_freed,
    measure_held_bytes,
    measure_held_mib,
    release_memory,
)

MIB = 1 << 20


def watched(watch, work):
    watch.begin()
    kept = work()
    return watch.end(), kept


# In processes of their own: in this one, earlier tests have left memory to fill first, and threads
# of theirs may take some at any time


def peaks():
    # The first use loads code, which stays resident
    torch.ones(MIB, dtype=torch.uint8).sum()
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
    taken, mapped, held = map(
        float, said_by(take_and_map, tmp_path / "mapped.npy").split()
    )
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
