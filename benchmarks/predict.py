"""Photos a second of `tuner predict`, and of features, beside the same steps in plain torch.

    python -m benchmarks.predict [--photos 3000] [--rounds 3] [--model resnet10] [--px 64]
                                 [--features 300]

predict   `tuner.predict` of JPEGs of 400x300 px, and beside it first Pillow on all cores, then the
          same network on the pixels that are decoded by then, in batches of 125
features  resnet18 of torchvision's layout with random weights, 224 px, one view of each photo: the
          start of a trial of `train_layers=head` on photos that are decoded already, and beside it
          the network on the same pixels, in batches of 125

Both take turns. Exits with 1 if a median misses its bar: at least 0.8 of the plain throughput for
predict, and at most 1.2 times the plain seconds for features.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn

LEAST_OF_PREDICT = 0.8
MOST_OF_FEATURES = 1.2
BATCH = 125
CLASSES = 4
SIZE = (400, 300)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=3000)
    parser.add_argument("--features", type=int, default=300, help="photos; 0 for none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="resnet10")
    parser.add_argument("--px", type=int, default=64)
    options = parser.parse_args()
    print(
        f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}; "
        f"python {platform.python_version()}, torch {version('torch')}, pillow {version('pillow')}"
    )
    with tempfile.TemporaryDirectory(prefix="predict-") as name:
        folder = Path(name)
        os.environ |= {
            "TUNER_DATA": str(folder / "data"),
            "TORCH_HOME": str(folder / "torch"),
        }
        is_met = True
        if options.photos:
            paths = write_photos(folder / "photos", options.photos)
            is_met = compare_predict(folder, paths, options)
        if options.features:
            write_photos(folder / "some", options.features)
            is_met &= compare_features(folder, options)
    return 0 if is_met else 1


def write_photos(folder: Path, count: int) -> list[str]:
    """JPEGs of smooth noise in folders of classes."""
    rng = np.random.default_rng(0)
    paths = []
    for number in range(count):
        path = folder / f"class_{number % CLASSES}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8))
        coarse.resize(SIZE, Image.Resampling.BICUBIC).save(path, quality=85)
        paths.append(str(path))
    return paths


def compare_predict(
    folder: Path, paths: Sequence[str], options: argparse.Namespace
) -> bool:
    import tuner

    # One view
    training = {"model": options.model, "image_size": options.px, "flip": "false"}
    few = folder / "few"
    export = folder / "model"
    write_photos(few, 40)
    run = [
        f"folder:{few}",
        *(f"training.{name}={value}" for name, value in training.items()),
    ]
    where = ["--name", "few", "--storage", str(folder / "results")]
    command(
        *("run", *run, *where),
        *("scheduler.max_t=1", "--num-samples", "1", "--no-evaluate"),
    )
    command("export", "few", *where[2:], "--to", str(export))
    model = tuner.load_model(export)
    plain = partial(decoded_then_computed, model, paths, options.px)
    ours, beside = in_turns(
        lambda: list(tuner.predict(export, paths)), plain, options.rounds
    )
    what = f"predict, {len(paths)} photos, {options.model} at {options.px} px"
    return reported(what, len(paths), ours, beside) <= 1 / LEAST_OF_PREDICT


def command(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "tuner", *arguments], check=True, capture_output=True
    )


def decoded_then_computed(model: nn.Module, paths: Sequence[str], px: int) -> None:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        pixels_NHWC = np.stack([*threads.map(partial(decoded, px=px), paths)])
    computed(model, pixels_NHWC)


def decoded(path: str, px: int) -> np.ndarray:
    """pixels_HWC of the square in the middle, as one would write it."""
    with Image.open(path) as image:
        image.draft("RGB", (2 * px, 2 * px))
        rgb = image.convert("RGB")
        side = min(rgb.size)
        left = (rgb.width - side) // 2
        top = (rgb.height - side) // 2
        box = (left, top, left + side, top + side)
        resized = rgb.resize(
            (px, px), Image.Resampling.BILINEAR, box=box, reducing_gap=2.0
        )
        return np.asarray(resized)


@torch.inference_mode()
def computed(model: nn.Module, pixels_NHWC: np.ndarray) -> None:
    """The network on batches of normalised pixels, its channels last."""
    model.eval().to(memory_format=torch.channels_last)
    for batch_NHWC in torch.from_numpy(pixels_NHWC).split(BATCH):
        model(batch_NHWC.permute(0, 3, 1, 2).float().div_(255).sub_(0.45).div_(0.225))


def compare_features(folder: Path, options: argparse.Namespace) -> bool:
    from tuner.vision import features
    from tuner.vision.catalog import DataChoice, load_dataset_info, pin_dataset
    from tuner.vision.datasets._dataset import resolve_data_folder
    from tuner.vision.image_classifier import ImageClassifier
    from tuner.vision.models._torchvisions import build_network
    from tuner.vision.weights import find_weights

    model = build_network("resnet18", 1000)
    path = find_weights("resnet18").path
    path.parent.mkdir(parents=True)
    torch.save(model.state_dict(), path)
    data, _ = pin_dataset(DataChoice(f"folder:{folder / 'some'}", image_size=224))
    constants = {
        **asdict(data),
        "model": "torchvision:resnet18",
        "pretrained": True,
        "train_layers": "head",
        "batch_size": 1,
    }
    pixels_NHWC = (
        load_dataset_info(data)
        .load(resolve_data_folder(None), split_seed=0)
        .images_NHWC
    )

    def ours() -> None:
        features._kept.clear()
        shutil.rmtree(resolve_data_folder(None) / features.STORE, ignore_errors=True)
        ImageClassifier({}, constants)

    own, beside = in_turns(
        ours, lambda: computed(model, np.array(pixels_NHWC)), options.rounds
    )
    what = f"features, {len(pixels_NHWC)} photos, resnet18 at 224 px"
    return reported(what, len(pixels_NHWC), own, beside) <= MOST_OF_FEATURES


class Seconds(NamedTuple):
    """Of one call: on the wall, and of all threads' CPU."""

    wall: float
    cpu: float


def in_turns(
    ours: Callable[[], object], plain: Callable[[], object], rounds: int
) -> tuple[list[Seconds], list[Seconds]]:
    """Seconds of each, by round; a first call of each is not counted."""
    seconds: tuple[list[Seconds], list[Seconds]] = [], []
    for number in range(rounds + 1):
        for call, measured in zip((ours, plain), seconds, strict=True):
            began = Seconds(time.perf_counter(), time.process_time())
            call()
            if number:
                now = Seconds(time.perf_counter(), time.process_time())
                measured.append(Seconds(now.wall - began.wall, now.cpu - began.cpu))
    return seconds


def reported(what: str, count: int, ours: list[Seconds], plain: list[Seconds]) -> float:
    """Prints the figures; returns the median of tuner's wall seconds / those of plain torch."""
    rates = [count / median(each.wall for each in seconds) for seconds in (ours, plain)]
    pairs = list(zip(ours, plain, strict=True))
    ratios = [own.wall / other.wall for own, other in pairs]
    cpu = median(own.cpu / other.cpu for own, other in pairs)
    print(
        f"{what}: {rates[0]:.0f} photos/s, plain {rates[1]:.0f}; seconds / plain "
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, n = {len(ratios)}), "
        f"of the CPU {cpu:.2f}",
        flush=True,
    )
    return median(ratios)


if __name__ == "__main__":
    sys.exit(main())
