"""Compares whole-batch augmentation in memory to a DataLoader with per-sample transforms.

    python -m benchmarks.data_path            about 5 minutes
    python -m benchmarks.data_path --quick    a small run: shows that it works, proves nothing

Both sides produce the same pixels, which is checked first. They take turns, round by round, on the
same CPUs: `--cpus` of them, 1 by default. The DataLoader's workers share these CPUs. CPU seconds
are user + system, of the process and its workers. The per-sample side is that of the PyTorch
tutorials: a DataLoader with 8 workers, and for each image RandomCrop with padding,
RandomHorizontalFlip, ToTensor and Normalize, as torchvision does them on PIL images. The same is
measured without workers. There an epoch has no target, since most of it is the network's own
arithmetic.

Exits with 1 if a median misses its target (not with --quick).
"""

# N batch, C channels, H W pixels

import argparse
import os
import platform
import resource
import statistics
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

from tuner.errors import DataError
from tuner.vision.batches import Batcher, image_set
from tuner.vision.blueprint import blueprint_of
from tuner.vision.catalog import DATASETS, DataChoice
from tuner.vision.datasets import cifar10
from tuner.vision.datasets._dataset import ImageArrays, data_folder
from tuner.vision.epochs import plan_epoch, shards
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.recipe import Augmentation
from tuner.vision.settings import ClassifierSettings

BATCH_SIZE = 128
PADDING = 4
AUGMENTATION = Augmentation(crop_padding=PADDING, flip=True)
CPU = torch.device("cpu")
NAME = "cifar-shaped"
LARGEST_DIFFERENCE = 2e-6


class PerSample(Dataset):
    """One image at a time, by what torchvision's transforms do to a PIL image, step by step.

    `draws` fixes the random decisions, to compare pixels.
    """

    def __init__(self, images_NHWC, labels_N, *, augment, draws=None):
        self.images_NHWC, self.labels_N = images_NHWC, labels_N
        self.augment, self.draws = augment, draws
        self.mean, self.std = DATASETS[NAME].mean, DATASETS[NAME].std

    def __len__(self):
        return len(self.labels_N)

    def __getitem__(self, index):
        image = Image.fromarray(self.images_NHWC[index])
        if self.augment:
            flip, top, left = self._decide(index)
            width, height = image.size
            image = ImageOps.expand(image, border=PADDING, fill=0)
            image = image.crop((left, top, left + width, top + height))
            if flip:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return normalise(to_tensor(image), self.mean, self.std), int(self.labels_N[index])

    def _decide(self, index):
        if self.draws is not None:
            return (values_N[index].item() for values_N in self.draws[:3])
        top, left = (torch.randint(0, 2 * PADDING + 1, (1,)).item() for _ in range(2))
        return torch.rand(1).item() < 0.5, top, left


def to_tensor(image):
    """torchvision's ToTensor."""
    x_HWC = torch.from_numpy(np.array(image, copy=True))
    return x_HWC.permute(2, 0, 1).contiguous().to(torch.float32).div(255)


def normalise(x_CHW, mean, std):
    """torchvision's Normalize."""
    mean_C, std_C = (torch.as_tensor(values, dtype=x_CHW.dtype) for values in (mean, std))
    return x_CHW.clone().sub_(mean_C.view(-1, 1, 1)).div_(std_C.view(-1, 1, 1))


@cache
def arrays():
    """(the images, where they are from): CIFAR-10 where it lies on disk, else random pixels."""
    folder = data_folder(None)
    info = DATASETS[NAME]
    if any((folder / name).exists() for name in (cifar10.ARCHIVE, cifar10.EXTRACTED)):
        try:
            real = cifar10.load(folder, split_seed=0)
            splits = {name: rows[: getattr(info, name)] for name, rows in real.splits.items()}
            return replace(real, splits=splits), f"CIFAR-10 in {folder}"
        except DataError as error:
            print(error, file=sys.stderr)
    rng = np.random.default_rng(0)
    count = info.train + info.validation + info.test
    images_NHWC = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    labels_N = rng.integers(0, 10, count)
    ends = np.cumsum([info.train, info.validation])
    splits = dict(
        zip(("train", "validation", "test"), np.split(np.arange(count), ends), strict=True)
    )
    return ImageArrays(images_NHWC, labels_N, splits), "random pixels of CIFAR-10's shape"


def load(folder: Path, *, split_seed: int):
    """Load the benchmark's data set, as the module of one that ships does."""
    return arrays()[0]


def ours_set():
    return image_set(DataChoice(NAME), CPU)


def loader(split, *, workers, augment):
    images = arrays()[0]
    rows = images.splits[split]
    dataset = PerSample(images.images_NHWC[rows], images.labels_N[rows], augment=augment)
    return DataLoader(dataset, BATCH_SIZE, shuffle=augment, num_workers=workers)


def plan(images, epoch=0):
    return plan_epoch(
        images.splits["train"],
        seed=0,
        epoch=epoch,
        image_size=32,
        augmentation=AUGMENTATION,
        device=CPU,
    )


def largest_difference(count):
    """Between both sides' pixels for the same `count` images and the same decisions."""
    images = ours_set()
    epoch = plan(images)
    x_NCHW, labels_N = Batcher(
        images, dtype=torch.float32, augmentation=AUGMENTATION
    ).training_batch(epoch, slice(count))
    rows = epoch.order_N[:count].numpy()
    source = arrays()[0]
    theirs = PerSample(
        source.images_NHWC[rows], source.labels_N[rows], augment=True, draws=epoch.draws
    )
    assert labels_N.tolist() == [label for _, label in theirs]
    return (x_NCHW - torch.stack([x_CHW for x_CHW, _ in theirs])).abs().max().item()


def data_ours():
    images = ours_set()
    batcher = Batcher(images, dtype=torch.float32, augmentation=AUGMENTATION)
    epoch = plan(images)
    for shard in shards(len(epoch.order_N), batch_size=BATCH_SIZE):
        batcher.training_batch(epoch, shard.positions)


def data_theirs(workers):
    for _ in loader("train", workers=workers, augment=True):
        pass


def epoch_ours():
    """Train and validate the tutorials' Net for one epoch, as a trial does."""
    constants = {"model": "net", "dataset": NAME, "batch_size": BATCH_SIZE, "epochs": 1}
    config = {"lr": 0.01, "crop_padding": PADDING, "flip": True, "lr_schedule": "constant"}
    ImageClassifier(config, constants).step()


def epoch_theirs(workers):
    """The same epoch as the tutorials write it."""
    settings = ClassifierSettings(model="net", dataset=NAME)
    model = blueprint_of(settings).initial()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    for x_NCHW, labels_N in loader("train", workers=workers, augment=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x_NCHW), labels_N)
        loss.backward()
        optimizer.step()
        loss.item()
    model.eval()
    with torch.no_grad():
        for x_NCHW, labels_N in loader("validation", workers=workers, augment=False):
            logits_NK = model(x_NCHW)
            F.cross_entropy(logits_NK, labels_N).item()
            (logits_NK.argmax(1) == labels_N).sum().item()


@dataclass(frozen=True)
class Cost:
    """Seconds: of all processes' CPU time, and of the clock on the wall."""

    cpu_s: float
    wall_s: float


def cost(work):
    """The cost of `work()`; its worker processes are over, and so counted, when it returns."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return Cost(cpu_seconds() - cpu, time.perf_counter() - wall)


def cpu_seconds():
    """User + system seconds of this process and of its children that are over."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def compare(title, ours, theirs, *, rounds, images, targets):
    """Alternate `ours` with each of `theirs`, print costs and ratios; whether all targets are met.

    `targets` maps (side, kind of cost) to the least median ratio.
    """
    sides = {"ours": ours, **theirs}
    for work in sides.values():
        work()  # the first run imports and maps
    costs = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            costs[name].append(cost(work))
    print(f"\n{title}: n = {rounds} rounds of {images} images")
    for name, found in costs.items():
        cpu, wall = (
            statistics.median(getattr(c, kind) for c in found) / images * 1e6
            for kind in ("cpu_s", "wall_s")
        )
        print(f"  {name:22} {cpu:8.2f} CPU us an image {wall:8.2f} us on the wall (medians)")
    kept = [
        show_ratios(name, kind, costs, targets.get((name, kind)))
        for name in theirs
        for kind in ("cpu_s", "wall_s")
    ]
    return all(kept)


def show_ratios(name, kind, costs, target):
    """Print the ratios of one kind of cost, round by round; whether the median is on target."""
    pairs = zip(costs[name], costs["ours"], strict=True)
    ratios = [getattr(slow, kind) / getattr(fast, kind) for slow, fast in pairs]
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    verdict = f"  target {target:g}: {'met' if middle >= target else 'MISSED'}" if target else ""
    label = f"{name} / ours, {kind}"
    print(f"  {label:38} min {low:5.2f}  median {middle:5.2f}  max {high:5.2f}{verdict}")
    return middle >= (target or 0)


@contextmanager
def share_of(cpus):
    """Keep this process and its children to `cpus` CPUs, and torch to as many threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cpus])
    torch.set_num_threads(cpus)
    yield
    os.sched_setaffinity(0, before)


def processor():
    """The processor's name, as far as the system tells."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def register(*, train, validation):
    """Put the benchmark's data set into the catalog, as anyone's would be."""
    DATASETS[NAME] = replace(
        DATASETS["cifar10"],
        load=load,
        archive=None,
        train=train,
        validation=validation,
        test=0,
        files=False,
    )


def main():
    parser = argparse.ArgumentParser(description="Our data path beside a per-sample DataLoader.")
    parser.add_argument("--quick", action="store_true", help="few images, 2 rounds, no verdict")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpus", type=int, default=1, help="CPUs that each side may use")
    parser.add_argument("--workers", type=int, default=8, help="of the DataLoader, beside 0")
    args = parser.parse_args()
    train, validation = (2_560, 512) if args.quick else (45_000, 5_000)
    rounds = 2 if args.quick else args.rounds
    register(train=train, validation=validation)
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    print(
        f"{arrays()[1]}; {processor()}, {os.cpu_count()} cores, {args.cpus} used by each side; "
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    )
    difference = largest_difference(min(train, 2_000))
    print(f"largest difference between both sides' pixels: {difference:.1e}")
    assert difference <= LARGEST_DIFFERENCE
    sides = {f"DataLoader, {workers} workers": workers for workers in (0, args.workers)}
    tutorials = list(sides)[-1]
    with share_of(args.cpus):
        met = compare(
            "Data path (load, augment, normalise, batch)",
            data_ours,
            {name: partial(data_theirs, workers) for name, workers in sides.items()},
            rounds=rounds,
            images=train,
            targets={(name, "cpu_s"): 10 for name in sides},
        )
        met &= compare(
            f"An epoch of the tutorials' Net (batch {BATCH_SIZE}, train and validate)",
            epoch_ours,
            {name: partial(epoch_theirs, workers) for name, workers in sides.items()},
            rounds=rounds,
            images=train + validation,
            targets={(tutorials, "cpu_s"): 2, (tutorials, "wall_s"): 2},
        )
    return 0 if met or args.quick else 1


if __name__ == "__main__":
    sys.exit(main())
