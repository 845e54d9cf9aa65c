import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import torch

from tuner.trial import process_memory
from tuner.trial.process_memory import give_back, held_mib, status_mib

MIB = 1 << 20


def test_held_memory_is_what_was_taken_and_not_what_is_mapped_from_files(tmp_path):
    before = held_mib()
    taken = np.ones(64 * MIB, np.uint8)
    assert 60 < held_mib() - before < 80
    np.save(tmp_path / "mapped.npy", taken)
    del taken
    mapped = np.load(tmp_path / "mapped.npy", mmap_mode="r")
    resident = status_mib("VmRSS")
    assert mapped.sum() == 64 * MIB
    assert status_mib("VmRSS") - resident > 60
    assert held_mib() - before < 20


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
    give_back()
    assert emptied == [True]


def test_where_linux_has_no_answer_nothing_is_held(monkeypatch, tmp_path):
    monkeypatch.setattr(process_memory, "_STATUS", tmp_path / "none")
    assert held_mib() == 0


def test_small_pieces_that_were_freed_go_back_to_the_system():
    code = """
from tuner.trial.process_memory import give_back, held_mib
pieces = [bytes(1000) for _ in range(200_000)]
pieces = pieces[-1:]  # the last one holds on to the heap's end
before = held_mib()
give_back()
print(before - held_mib())
"""
    run = [sys.executable, "-c", code]
    freed = float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert freed > 20


def test_it_does_not_import_torch():
    code = "import sys, tuner.trial.recycling; print('torch' in sys.modules)"
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "False\n"
