"""How much memory concurrent trials on CIFAR-10-sized data use beyond that of idle workers.

    python -m benchmarks.memory            under a minute
    python -m benchmarks.memory --quick    few images: shows that it works, proves nothing

Four processes each run one epoch of the digits, release it and stay idle, like a worker that waits
for its next trial. Their PSS (each page divided by the number of processes that share it) is read
from /proc. Then each trains the tutorials' Net on 45,000 images for two epochs, `--at-once` of them
at a time. From the end of the first epoch, when all four share the images, PSS is read every 50 ms.
A process's figure is its largest PSS minus its idle PSS. The images are random pixels in the layout
of a decoded CIFAR-10.

Exits with 1 if a process misses the target (not with --quick).
"""

import argparse
import gc
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as mp

from tuner.vision.catalog import DATASETS
from tuner.vision.datasets import cifar10
from tuner.vision.image_classifier import ImageClassifier

TRIALS = 4
TARGET_MIB = 60
SETTINGS = {"model": "net", "dataset": "cifar10", "batch_size": 64, "lr": 0.01, "epochs": 2}
EVERY_S = 0.05


def write_images(folder):
    """60,000 images as CIFAR-10's module keeps them once it has decoded the archive."""
    decoded = folder / cifar10.DECODED
    decoded.mkdir()
    rng = np.random.default_rng(0)
    labels = np.arange(60_000) % 10
    np.save(decoded / "images.npy", rng.integers(0, 256, (60_000, 32, 32, 3), dtype=np.uint8))
    np.save(decoded / "labels.npy", labels.astype(np.uint8))


def trial(number, folder, quick, turns, idle, shared, trained, leave):
    torch.set_num_threads(1)
    with turns:
        ImageClassifier({}, {"epochs": 1}).step()
    gc.collect()
    idle.wait()
    idle.wait()
    with turns:
        learner = ImageClassifier({}, {**SETTINGS, "data_dir": folder, "seed": number})
        if quick:
            splits = learner._data.splits
            learner._data.splits.update({name: rows[:256] for name, rows in splits.items()})
        learner.step()
    shared.wait()
    with turns:
        learner.step()
    trained.release()
    leave.wait()


def pss_mib(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure(folder, quick, at_once):
    """(idle, largest) in MiB, one each a process."""
    context = mp.get_context("spawn")
    idle, shared = context.Barrier(TRIALS + 1), context.Barrier(TRIALS + 1)
    turns, trained, leave = context.Semaphore(at_once), context.Semaphore(0), context.Event()
    arguments = (str(folder), quick, turns, idle, shared, trained, leave)
    processes = [context.Process(target=trial, args=(n, *arguments)) for n in range(TRIALS)]
    for process in processes:
        process.start()
    pids = [process.pid for process in processes]
    idle.wait()
    before = list(map(pss_mib, pids))
    idle.wait()
    shared.wait()
    largest, done = list(map(pss_mib, pids)), 0
    while done < TRIALS:
        done += trained.acquire(timeout=EVERY_S)
        largest = list(map(max, largest, map(pss_mib, pids)))
    leave.set()
    for process in processes:
        process.join()
    return before, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--at-once", type=int, default=TRIALS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        before, largest = measure(Path(folder), options.quick, options.at_once)
    images = DATASETS["cifar10"].train
    versions = f"torch {torch.__version__}"
    print(f"{TRIALS} trials, {options.at_once} at a time, {images:,} images, {versions}")
    for name, values in (("idle", before), ("largest", largest)):
        print(f"  PSS {name}: {', '.join(f'{value:.0f}' for value in values)} MiB")
    beyond = [top - idle for top, idle in zip(largest, before, strict=True)]
    most, median = max(beyond), statistics.median(beyond)
    print(f"beyond idle: at most {most:.0f} MiB, median {median:.0f}; target {TARGET_MIB}")
    return int(most > TARGET_MIB and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
