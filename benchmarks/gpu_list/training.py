"""Steps of the list that train in one process."""

from __future__ import annotations

import math
import time
from collections import Counter
from functools import partial

import torch

from benchmarks.gpu import MUON, NAME, RECIPE, register, speednet
from tuner.vision.image_classifier import ImageClassifier

PRECISIONS = ("float32", "tf32", "bf16", "fp16")
OPTIMIZERS = ("sgd", "sgdw", "adamw", "muon")
NETWORKS = ("cnn", "net", "resnet18", "resnet20")
EXACT = {
    "model": "cnn",
    "dtype": "float64",
    "dataset": NAME,
    "batch_size": 64,
    "epochs": 3,
}
AS_EQUAL = 1e-9
# What waits for the device: calls of CUDA's, and what reads a value of it
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
READS = "aten::_local_scalar_dense"
STEPS = 20


def every_network(device, dry):
    """One step of each network, precision and optimizer: is all that comes of it finite?"""
    register(quick=True)
    for model in NETWORKS[:1] if dry else NETWORKS:
        faults = []
        for precision in PRECISIONS:
            for optimizer in OPTIMIZERS:
                settings = {"precision": precision, "optimizer": optimizer, "lr": 0.01}
                recipe = {
                    "model": model,
                    "dataset": NAME,
                    "batch_size": 64,
                    "epochs": 1,
                }
                made = ImageClassifier(settings, recipe, device=device)
                loss = made.step()["train_loss"]
                weights = made.state_dict()["model"].values()
                if not (
                    math.isfinite(loss) and all(w.isfinite().all() for w in weights)
                ):
                    faults.append(f"{precision} {optimizer}")
        tried = len(PRECISIONS) * len(OPTIMIZERS)
        yield (
            f"{model}, {tried} combinations",
            f"not finite: {faults}" if faults else "all finite",
        )


def against_the_cpu(device, dry):
    """Two epochs in float64 on both devices; saved, loaded, and one epoch more."""
    register(quick=True, train=200)
    here, there = (ImageClassifier({}, EXACT, device=d) for d in ("cpu", device))
    for made in (here, there):
        made.step()
        made.step()
    yield "largest difference of a weight after two epochs", difference(here, there)
    again = ImageClassifier({}, EXACT, device=device)
    again.load_state_dict(there.state_dict())
    losses = [made.step()["train_loss"] for made in (here, there, again)]
    yield (
        "largest difference after an epoch more, saved and loaded",
        difference(here, again),
    )
    if max(losses) - min(losses) > AS_EQUAL:
        raise SystemExit(f"losses differ: {losses}")


def difference(one, other):
    """The largest between the weights of two Learners; raises where they are not equal."""
    states = (made.state_dict()["model"] for made in (one, other))
    first, second = (
        torch.cat([w.double().flatten() for w in s.values()]) for s in states
    )
    largest = float((first - second).abs().max())
    if not largest <= AS_EQUAL:
        raise SystemExit(f"weights differ by {largest}")
    return f"{largest:.1e}"


def profile(device, dry):
    """What waits for the device in an epoch of 20 steps, and in its evaluation."""
    size = 8 if dry else 1024
    register(quick=True, train=STEPS * size, validation=size)
    more = {"batch_size": size, "epochs": 3}
    if dry:
        more |= {"model": "cnn", "width": 4}
    learners = {
        "resnet20": ImageClassifier({}, {**RECIPE, **more}, device=device),
        "resnet20 with Muon": ImageClassifier({}, {**MUON, **more}, device=device),
        "speednet": speednet(device, dry, train=STEPS * size, epochs=3),
    }
    for name, made in learners.items():
        made.step()
        began = time.perf_counter()
        with torch.profiler.profile() as seen:
            made.step()
        seconds = time.perf_counter() - began
        events = seen.key_averages()
        print(events.table(sort_by=f"self_{device}_time_total", row_limit=15))
        counts = Counter({event.key: event.count for event in events})
        reads = counts[READS]
        waits = {what: counts[what] for what in WAITS if counts[what]}
        yield (
            f"{name}: values read of the device, {STEPS} steps and an evaluation",
            str(reads),
        )
        yield f"{name}: calls of CUDA that wait for it", str(waits or "none")
        yield f"{name}: seconds of them, profiled", f"{seconds:.2f}"
        if reads >= STEPS:
            raise SystemExit("a value is read of the device at every step")


def ten_widths(device, dry):
    """Networks of ten widths, one after the other in one process: is each of them compiled?"""
    from torch._dynamo.utils import counters

    if dry:
        # Traced and run as it is: to make code of it takes a compiler half a minute
        torch.compile = partial(torch.compile, backend="aot_eager")
    register(quick=True, train=80)  # of 64 and 16 images
    for width in (2, 3) if dry else range(8, 48, 4):
        recipe = {"model": "cnn", "dataset": NAME, "batch_size": 64, "epochs": 2}
        made = ImageClassifier({"compile": True, "width": width}, recipe, device=device)
        before = counters["stats"]["unique_graphs"]
        began = time.perf_counter()
        made.step()
        seconds = time.perf_counter() - began
        graphs = counters["stats"]["unique_graphs"] - before
        yield (
            f"width {width}: graphs; seconds of the first epoch",
            f"{graphs}; {seconds:.1f}",
        )
        if graphs != 1:
            raise SystemExit(f"{graphs} graphs of one network")
