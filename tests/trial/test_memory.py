"""What a process holds, whether that only grows, and how it is released."""

import json
import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from forked import said_by
from hypothesis import given
from hypothesis import strategies as st

from tuner.trial import memory
from tuner.trial.memory import (
    EPOCHS,
    LEAST_MIB,
    MemoryWatch,
    first_growth,
    held_bytes,
    held_mib,
    keep_freed,
    release,
    steady_growth,
)

MIB = 1 << 20


def watched(watch, work):
    watch.begin()
    kept = work()
    return watch.end(), kept


# In processes of their own: in this one, earlier tests have left memory to fill first, and threads
# of theirs may take some at any time


def peaks():
    watch = MemoryWatch("cpu")
    small, _ = watched(watch, lambda: None)
    large, _ = watched(watch, lambda: torch.ones(64 * MIB, dtype=torch.uint8).sum())
    again, _ = watched(watch, lambda: None)
    print(json.dumps([small, large, again]))


def test_the_peak_is_the_epochs_own():
    small, large, again = json.loads(said_by(peaks))
    assert large["peak_memory_mib"] >= small["memory_mib"] + 60
    assert again["peak_memory_mib"] <= large["peak_memory_mib"] - 60
    assert large["memory_mib"] < small["memory_mib"] + 30
    assert set(large) == {"memory_mib", "peak_memory_mib"}


def keep():
    watch = MemoryWatch("cpu")
    before, _ = watched(watch, lambda: None)
    after, _kept = watched(watch, lambda: torch.ones(64 << 20, dtype=torch.uint8))
    print(after["memory_mib"] - before["memory_mib"])


def test_memory_that_is_kept_shows():
    assert float(said_by(keep)) >= 60


def test_where_linux_has_no_answer_the_peak_of_the_process_stands_in(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "none" / "none")
    measured, _ = watched(MemoryWatch("cpu"), lambda: None)
    assert measured["memory_mib"] == measured["peak_memory_mib"] > 10


def sum_losses(of):
    watch, model, running_loss = MemoryWatch("cpu"), torch.nn.Linear(1000, 1000), 0.0
    for _ in range(EPOCHS + 6):
        watch.begin()
        for _ in range(10):
            running_loss = running_loss + of(model(torch.ones(100, 1000)).exp().sum())
        watch.end()
    print("warned" if watch.warned else "quiet")


def test_a_running_loss_that_keeps_its_graph_is_warned_of_once():
    out = said_by(sum_losses, torch.Tensor.clone)
    assert out.endswith("warned\n")
    assert out.count("warning") == 1
    assert "running loss" in out


@pytest.mark.parametrize(
    ("on_gpu", "on_host", "said"),
    [(0, 0, None), (2, 0, "the memory on the GPU grew"), (0, 2, "the memory of the process grew")],
)
def test_on_cuda_both_memories_are_watched(monkeypatch, capsys, on_gpu, on_host, said):
    epochs = iter(range(2 * EPOCHS))
    now = {"epoch": 0}
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        reset_peak_memory_stats=lambda device: now.update(epoch=next(epochs)),
        memory_allocated=lambda device: (100 + on_gpu * now["epoch"]) * MIB,
        max_memory_allocated=lambda device: 200 * MIB,
        utilization=lambda device: 50,
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(memory, "_resident_mib", lambda: 300.0 + on_host * now["epoch"])
    watch = MemoryWatch("cuda")
    for _ in range(EPOCHS + 2):
        measured, _ = watched(watch, lambda: None)
    assert set(measured) == {"memory_mib", "peak_memory_mib", "host_memory_mib", "gpu_busy"}
    assert measured["gpu_busy"] == 0.5
    printed = capsys.readouterr().out
    assert (said in printed) if said else not printed


def test_one_that_does_not_is_not_warned_of():
    assert said_by(sum_losses, torch.Tensor.detach) == "quiet\n"


def test_growth_needs_every_one_of_the_last_epochs():
    rising = [100.0 + 3 * epoch for epoch in range(EPOCHS + 2)]
    assert steady_growth(rising) == 3
    assert steady_growth(rising[:-1]) is None  # one epoch fewer
    for epoch in range(2, len(rising)):
        flat = rising.copy()
        flat[epoch] = flat[epoch - 1]
        assert steady_growth(flat) is None


@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_memory_that_does_not_grow_is_never_a_leak(samples):
    assert steady_growth(sorted(samples, reverse=True)) is None
    growth = steady_growth(samples)
    assert growth is None or growth >= LEAST_MIB


@given(st.floats(100, 1e5), st.lists(st.floats(0, LEAST_MIB / 2), max_size=30))
def test_small_steps_are_no_leak(start, steps):
    assert steady_growth(list(np.cumsum([start, *steps]))) is None


def test_growth_that_ended_is_still_known():
    rising = [100.0 + 3 * epoch for epoch in range(EPOCHS + 2)]
    flat = [rising[-1]] * 10
    assert first_growth(rising[:-1] + [rising[-2]] * 10) is None
    assert steady_growth(rising + flat) is None
    assert first_growth(rising + flat) == 3
    assert first_growth([]) is None


def take_and_map(file):
    before = held_mib()
    taken = np.ones(64 << 20, np.uint8)
    print(held_mib() - before)
    np.save(file, taken)
    del taken
    mapped = np.load(file, mmap_mode="r")
    resident = psutil.Process().memory_info().rss
    mapped.sum()
    print((psutil.Process().memory_info().rss - resident) / MIB)
    print(held_mib() - before)


def test_held_memory_is_what_was_taken_and_not_what_is_mapped_from_files(tmp_path):
    taken, mapped, held = map(float, said_by(take_and_map, tmp_path / "mapped.npy").split())
    assert 60 < taken < 80
    assert mapped > 60
    assert held < 20


def test_tensors_on_cuda_count_and_its_cache_is_emptied(monkeypatch):
    emptied = []
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        memory_allocated=lambda: 100 * MIB,
        empty_cache=lambda: emptied.append(True),
    )
    before = held_mib()
    monkeypatch.setattr(torch, "cuda", cuda)
    assert 90 < held_mib() - before < 110
    release()
    assert emptied == [True]


def test_a_process_that_is_gone_holds_nothing():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert held_bytes(gone.pid) == 0


def take_again(*said):
    os.environ |= dict.fromkeys(said, "1000000")

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        _copies = [bytearray(4 * MIB) for _ in range(8)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    anew = [faults() for _ in range(4)][-1]
    keep_freed()
    again = [faults() for _ in range(4)][-1]
    held = held_mib()
    release()
    print(json.dumps([anew, again, held - held_mib()]))


def test_what_is_kept_is_there_for_what_comes_next_and_is_released():
    anew, again, released = json.loads(said_by(take_again))
    assert anew > 1000  # pages; a large one may count for several
    assert again < 100
    assert released > 20


def test_where_the_environment_says_how_memory_is_kept_that_stays():
    anew, again, _ = json.loads(said_by(take_again, "MALLOC_TRIM_THRESHOLD_"))
    assert again > anew / 2


def free_small_pieces():
    pieces = [bytes(1000) for _ in range(200_000)]
    pieces = pieces[-1:]  # the last one holds on to the heap's end
    before = held_mib()
    release()
    print(before - held_mib())


def test_small_pieces_that_were_freed_go_back_to_the_system():
    assert float(said_by(free_small_pieces)) > 20


def test_it_does_not_import_torch():
    code = "import sys, tuner.trial.memory; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
