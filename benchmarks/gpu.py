"""Measures one GPU: seconds per epoch, and a batch that does not fit into its memory.

    python -m benchmarks.gpu            about 2 minutes on one GPU
    python -m benchmarks.gpu --quick    a small run on any device: shows that it works, no more

Uses random pixels in CIFAR-10's shape. An epoch has 45,000 training images and the evaluation of
5,000, each with its mirror image. The first two epochs of each learner are warm-up and do not
count. Prints a table and exits with 0, or with 1 if there is no CUDA device (not with --quick).
"""

import argparse
import platform
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as mp

from tuner.shipped.experiments import cifar10_speednet
from tuner.vision.catalog import DATASETS
from tuner.vision.datasets._dataset import ImageArrays
from tuner.vision.image_classifier import ImageClassifier

NAME = "cifar-shaped"
WARM_UP = 2
RECIPE = {
    "model": "resnet20",
    "dataset": NAME,
    "batch_size": 1024,
    "crop_padding": 2,
    "flip": True,
    "test_time_flip": True,
    "optimizer": "sgdw",
    "lr": 0.5,
    "lr_schedule": "triangular",
    "label_smoothing": 0.2,
}
MUON = {**RECIPE, "optimizer": "muon"}


def parse_arguments(rounds):
    """--quick and --rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser.parse_args()


def spread(values):
    """Least, median and largest."""
    return " / ".join(f"{f(values):.3f}" for f in (min, statistics.median, max))


def load(folder: Path, *, split_seed: int):
    """Load this benchmark's data set, as a module of one that ships does."""
    info = DATASETS[NAME]
    rng = np.random.default_rng(0)
    counts = (info.train, info.validation, info.test)
    images_NHWC = rng.integers(0, 256, (sum(counts), 32, 32, 3), dtype=np.uint8)
    parts = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    splits = dict(zip(("train", "validation", "test"), parts, strict=True))
    return ImageArrays(images_NHWC, rng.integers(0, 10, sum(counts)), splits)


def register(quick, **counts):
    """`counts` of images of a split take the place of the usual ones."""
    if quick:
        counts = {"train": 64, "validation": 16, "test": 16} | counts
    usual = replace(DATASETS["cifar10"], load=load, archive=None, files=False)
    DATASETS[NAME] = replace(usual, **counts)


def resnet(device, quick, settings):
    small = {"model": "cnn", "width": 4, "batch_size": 32} if quick else {}
    return ImageClassifier(
        {**settings, **small}, {**RECIPE, "epochs": 100}, device=device
    )


def speednet(device, quick, *, train=45_000, epochs=100):
    """The Learner of `cifar10_speednet` on random images, `train` of which train."""
    train = 64 if quick else train
    a_file = -(-train * 2 // 9)  # a tenth of the five training files validates

    def read(data_dir):
        generator = torch.Generator().manual_seed(0)
        shape = (6 * a_file, 3, 32, 32)
        images_NCHW = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        return images_NCHW, torch.randint(10, shape[:1], generator=generator)

    cifar10_speednet.read_cifar10 = read
    small = {"batch_size": 32, "width": 4} if quick else {}
    constants = {"epochs": epochs, "seed": 0, **small}
    return cifar10_speednet.SpeedNetLearner(
        {}, constants, device=torch.device(device), rank=0, world_size=1
    )


def seconds_of_steps(made, *, epochs):
    seconds = []
    for _ in range(WARM_UP + epochs):
        began = time.perf_counter()
        made.step()  # reads its metrics from the device at its end
        seconds.append(time.perf_counter() - began)
    return seconds[WARM_UP:]


def share(number, together, device, quick, span_s, start, rates):
    """One of `together` trials: its images/s over `span_s`, the others training beside it."""
    torch.set_num_threads(1)
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(1 / together)
    made = speednet(device, quick)
    for _ in range(WARM_UP):
        made.step()
    start.wait()
    began = time.perf_counter()
    images = 0
    while time.perf_counter() - began < span_s:
        made.step()
        images += len(made.train_labels_N)
    rates[number] = images / (time.perf_counter() - began)


def images_a_second(together, device, quick, span_s):
    context = mp.get_context("spawn")
    rates = context.Array("d", together)
    start = context.Barrier(together)
    arguments = (together, device, quick, span_s, start, rates)
    processes = [
        context.Process(target=share, args=(n, *arguments)) for n in range(together)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(f"a trial of {together} failed")
    return sum(rates)


def micro_batch_in(mib):
    """The micro-batch that ResNet-18 trains an epoch with where a process has `mib` of the GPU."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((mib << 20) / total)
    try:
        recipe = {"model": "resnet18", "dataset": NAME, "batch_size": 1024, "epochs": 1}
        return ImageClassifier({}, recipe, device="cuda").step()["micro_batch_size"]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def main():
    given = parse_arguments(rounds=10)
    if not (torch.cuda.is_available() or given.quick):
        print("no CUDA device: nothing measured", file=sys.stderr)
        return 1
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    card = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else "no GPU: proves nothing"
    )
    print(
        f"{card}; torch {torch.__version__}, CUDA {torch.version.cuda}, {platform.platform()}\n"
    )
    register(given.quick)
    if device.type == "cpu":
        torch.set_num_threads(1)
    epochs = 1 if given.quick else given.rounds

    print(f"seconds an epoch, min / median / max of {epochs}")
    seconds = seconds_of_steps(speednet(device, given.quick), epochs=epochs)
    print(f"  speednet: {spread(seconds)}")
    variants = {
        "the precision of the hardware": {"precision": "auto"},
        "float32": {"precision": "float32"},
        "compiled": {"compile": True},
    }
    for name, settings in variants.items():
        if given.quick and name == "compiled":
            continue
        seconds = seconds_of_steps(resnet(device, given.quick, settings), epochs=epochs)
        print(f"  resnet20, {name}: {spread(seconds)}")

    if device.type == "cuda":
        print(
            "\nout of memory, ResNet-18 at batch 1024: the micro-batch that an epoch ends with"
        )
        for mib in (32 << 10, 4 << 10, 2 << 10):
            torch.cuda.empty_cache()
            print(f"  with {mib:,} MiB: {micro_batch_in(mib)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
