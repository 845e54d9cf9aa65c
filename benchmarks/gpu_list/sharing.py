"""Several trials on one GPU: at the same time, with and without MPS, and one after the other."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from benchmarks.gpu import images_a_second, register

MPS = "nvidia-cuda-mps-control"
TOGETHER = (2, 4, 8)  # trials at once, as with --gpus 0.25
SPAN_S = 5
ROUNDS = 2


@contextmanager
def mps():
    """Within it processes that begin share the GPU through MPS, NVIDIA's multi-process service."""
    with tempfile.TemporaryDirectory() as folder:
        places = {
            f"CUDA_MPS_{kind}_DIRECTORY": f"{folder}/{kind}" for kind in ("PIPE", "LOG")
        }
        for place in places.values():
            Path(place).mkdir()
        os.environ.update(places)
        try:
            subprocess.run([MPS, "-d"], check=True, timeout=30)
            yield
        finally:
            subprocess.run([MPS], input="quit\n", text=True, check=False, timeout=30)
            for name in places:
                del os.environ[name]


def sharing(device, dry):
    """Images/s of trials together, as a multiple of one alone: of as many one after another."""
    together, span_s, rounds = ((2,), 0.1, 1) if dry else (TOGETHER, SPAN_S, ROUNDS)
    register(quick=dry)
    ways = {"one after another": (1, nullcontext)}
    ways |= {f"{count} at once": (count, nullcontext) for count in together}
    if shutil.which(MPS):
        ways |= {f"{count} at once with MPS": (count, mps) for count in together[1:]}
    else:
        yield "with MPS", f"not measured: no {MPS} here"
    rates = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (count, way) in ways.items():
            with way():
                rates[name].append(
                    images_a_second(count, torch.device(device), dry, span_s)
                )
            print(name, rates[name][-1], flush=True)
    alone = statistics.median(rates["one after another"])
    for name, found in rates.items():
        median = statistics.median(found)
        result = f"{median:,.0f}; {median / alone:.2f} (n {len(found)})"
        yield f"{name}: images/s; of one alone", result
