"""A folder of photographs, searched with no spec beside plain Ray Tune: seconds, CPU, lines.

    python -m benchmarks.image_folder [--images 3000] [--trials 8] [--epochs 10] [--rounds 3]
                                      [--px 400] [--workers 4] [--only data|search]
                                      [--model resnet20|cnn]

Writes JPEGs of 5 classes whose texture can be learned, and compares, in turns. They are about as
large as ImageNet's, of 469x387 px in the mean:

search  `tuner run folder:photos --no-evaluate` as a whole command, with nothing decoded before, and
        the script PLAIN below: Ray Tune with the same network, configs, ASHA, epochs and CPUs, and
        torchvision's ImageFolder with a DataLoader of 4 workers
data    CPU seconds an image, of all processes, to read, crop, mirror, normalise and batch it: our
        decoded array, and the same ImageFolder and DataLoader. What decoding costs, once, is told
        apart and spread over the epochs of one trial

Where torchvision cannot be imported, a Dataset with the same steps by Pillow takes its place; the
output says which it was. Lines are those of the files that a user writes, without blank ones and
comments. Exits with 1 if a median misses its goal (only with 3,000 images and 8 trials or more).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("bark", "cloth", "grass", "sand", "water")
IMAGES, TRIALS, EPOCHS = 3000, 8, 10
SIZE = 32  # px
SPACE = {
    "lr": "loguniform(1e-2, 1)",
    "weight_decay": "loguniform(1e-5, 1e-2)",
    "batch_size": "choice([16, 32, 64, 128])",
    "flip": "choice([True, False])",
    "crop_padding": f"choice({[0, SIZE // 8]})",
}
LARGEST = {"search": 0.25, "data": 0.1}  # of what is measured beside
BATCH = 64
_DECLARED: list = []

PLAIN = """
import json, os, sys, tempfile
from pathlib import Path

import torch.nn.functional as F
from ray import init, tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.basic_variant import BasicVariantGenerator
from torch.utils.data import DataLoader, Subset, random_split

from benchmarks.image_folder import image_folder, network

def train(config, folder, model_name, epochs, workers):
    import torch  # as a global beside the name `classes` it would not pickle
    torch.manual_seed(0)
    images = image_folder(folder, padding=config["crop_padding"], flip=config["flip"])
    plain = image_folder(folder, padding=0, flip=False)
    train_set, val_set, _ = random_split(range(len(images)), [0.7, 0.15, 0.15])
    batches = DataLoader(Subset(images, train_set.indices),
                         config["batch_size"], shuffle=True, num_workers=workers)
    held_out = DataLoader(Subset(plain, val_set.indices), 125, num_workers=workers)
    model = network(model_name, len(images.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9, nesterov=True,
                                weight_decay=config["weight_decay"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))
    for epoch in range(epochs):
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            loss = sum(F.cross_entropy(model(x), y, reduction="sum").item() for x, y in held_out)
        with tempfile.TemporaryDirectory() as directory:
            torch.save(model.state_dict(), Path(directory, "model.pt"))
            tune.report({"val_loss": loss / len(val_set)},
                        checkpoint=tune.Checkpoint.from_directory(directory))

configs, folder, model_name, epochs, workers, storage = json.loads(sys.argv[1])
init(address="local", num_cpus=len(os.sched_getaffinity(0)), object_store_memory=500 << 20)
trainable = tune.with_parameters(train, folder=folder, model_name=model_name, epochs=epochs,
                                 workers=workers)
done = tune.run(tune.with_resources(trainable, {"cpu": 1}), metric="val_loss", mode="min",
                config={name: tune.uniform(0, 1) for name in configs[0]}, num_samples=len(configs),
                search_alg=BasicVariantGenerator(points_to_evaluate=configs),
                scheduler=ASHAScheduler(max_t=epochs, grace_period=1, reduction_factor=3),
                storage_path=storage)
print("epochs", sum(trial.last_result["training_iteration"] for trial in done.trials))
"""


def write_images(folder: Path, count: int, px: int) -> None:
    """`count` JPEGs, evenly of each class: stripes of a direction and a width of its own."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:px, :px] / px
    for number in range(count):
        label = number % len(CLASSES)
        angle = np.pi * (label + rng.normal(0, 0.12)) / len(CLASSES)
        waves = (4 + label + rng.normal(0, 0.5)) * (x * np.cos(angle) + y * np.sin(angle))
        light = 0.5 + 0.2 * np.sin(2 * np.pi * (waves + rng.random()))
        tint = 0.7 + 0.3 * rng.random(3)
        coarse = rng.normal(0, 0.15, (px // 8, px // 8, 3)).repeat(8, 0).repeat(8, 1)[:px, :px]
        noise = np.zeros((px, px, 3))
        noise[: len(coarse), : coarse.shape[1]] = coarse
        pixels = np.clip(255 * (light[:, :, None] * tint + noise), 0, 255).astype(np.uint8)
        path = folder / CLASSES[label] / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=90)


# --- what is measured beside ------------------------------------------------------------------


@cache
def torchvision_works() -> bool:
    """Whether it can be imported: for torch's CPU build there is none.

    With that, its compiled operators are declared first; data sets and transforms use none.
    """
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return False
    import torch

    if not torch.version.cuda:
        text = Path(found.origin).with_name("_meta_registrations.py").read_text()
        library = torch.library.Library("torchvision", "DEF")
        for name in {"nms", *re.findall(r"torchvision::(\w+)", text)}:
            library.define(f"{name}(Tensor x) -> Tensor")
        _DECLARED.append(library)  # which ends with its last reference
    try:
        from torchvision import datasets, transforms  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        return False
    return True


class PillowFolder:
    """torchvision's ImageFolder and transforms, by the same steps of Pillow."""

    def __init__(self, folder: str, *, padding: int, flip: bool) -> None:
        self.classes = sorted(path.name for path in Path(folder).iterdir())
        self.files = [
            (path, label)
            for label, name in enumerate(self.classes)
            for path in sorted(Path(folder, name).iterdir())
        ]
        self.padding, self.flip = padding, flip

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int):
        import torch
        from PIL import ImageOps

        path, label = self.files[number]
        with path.open("rb") as file:
            image = Image.open(file).convert("RGB")
        image = ImageOps.fit(image, (SIZE, SIZE), Image.Resampling.BILINEAR)
        if self.padding:
            image = ImageOps.expand(image, self.padding)
            left, top = torch.randint(2 * self.padding + 1, (2,)).tolist()
            image = image.crop((left, top, left + SIZE, top + SIZE))
        if self.flip and torch.rand(1) < 0.5:
            image = ImageOps.mirror(image)
        x_CHW = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        return x_CHW.sub_(0.4).div_(0.2), label


def image_folder(folder: str, *, padding: int, flip: bool):
    """A Dataset of a folder, as torchvision's documentation writes it."""
    if not torchvision_works():
        return PillowFolder(folder, padding=padding, flip=flip)
    from torchvision import datasets, transforms

    steps = [
        transforms.Resize(SIZE),
        transforms.CenterCrop(SIZE),
        *([transforms.RandomCrop(SIZE, padding)] if padding else []),
        *([transforms.RandomHorizontalFlip()] if flip else []),
        transforms.ToTensor(),
        transforms.Normalize((0.4,) * 3, (0.2,) * 3),
    ]
    return datasets.ImageFolder(folder, transforms.Compose(steps))


def network(name: str, num_classes: int):
    """The same network."""
    from tuner.vision.catalog import MODELS

    info = MODELS[name]
    return info.build(in_channels=3, num_classes=num_classes, **info.defaults)


# --- the search -------------------------------------------------------------------------------


def run_tuner(place: Path, folder: Path, options: argparse.Namespace) -> dict:
    """The whole command; its journal tells what it trained."""
    from tuner.experiment.events import RESULT, TRIAL_STARTED
    from tuner.experiment.reading import read

    command = [sys.executable, "-m", "tuner", "run", f"folder:{place}", "--no-evaluate"]
    command += ["--num-samples", str(options.trials), f"scheduler.max_t={options.epochs}"]
    command += ["scheduler.grace_period=1"]  # as plain Ray Tune has it here
    training = {"dataset": f"folder:{place}", "image_size": SIZE, "model": options.model}
    command += [f"training={json.dumps(training)}"]
    command += [f"search={json.dumps({'strategy': 'random', 'space': SPACE})}"]
    command += ["--storage", str(folder), "--name", "photos"]
    environment = {**os.environ, "TUNER_DATA": str(folder / "data")}
    started = time.time()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    whole = time.time() - started
    events = list(read(folder / "photos"))
    results = [event for event in events if event["event"] == RESULT]
    return {
        "seconds": whole,
        "epochs": len(results),
        "configs": [event["config"] for event in events if event["event"] == TRIAL_STARTED],
        "best accuracy": max(event["metrics"]["val_accuracy"] for event in results),
    }


def run_plain(place: Path, folder: Path, configs: list, options: argparse.Namespace) -> dict:
    script = folder / "plain.py"
    script.write_text(PLAIN)
    how = options.model, options.epochs, options.workers
    given = json.dumps([configs, str(place), *how, str(folder / "tune")])
    paths = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "RAY_TMPDIR": str(folder)}
    started = time.time()
    command = [sys.executable, str(script), given]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    whole = time.time() - started
    if done.returncode:
        raise SystemExit(f"plain Ray Tune failed: {done.stderr[-2000:]}")
    [epochs] = [line for line in done.stdout.splitlines() if line.startswith("epochs ")]
    return {"seconds": whole, "epochs": int(epochs.split()[1])}


def compare_searches(place: Path, options: argparse.Namespace) -> list[float]:
    ratios = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="if-", dir="/tmp") as folder:
            ours = run_tuner(place, Path(folder), options)
            plain = run_plain(place, Path(folder), ours["configs"], options)
        ratios.append(ours["seconds"] / plain["seconds"])
        print(
            f"round {number + 1}  tuner {ours['seconds']:.1f} s for {ours['epochs']} epochs (best "
            f"val_accuracy {ours['best accuracy']:.3f}), plain {plain['seconds']:.1f} s for "
            f"{plain['epochs']}: {ratios[-1]:.3f}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    return ratios


# --- the data path ----------------------------------------------------------------------------


def cpu_seconds() -> float:
    """User + system seconds of this process and of its children that are over."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def cost(work: Callable[[], object]) -> float:
    before = cpu_seconds()
    work()
    return cpu_seconds() - before


def our_epoch(place: Path, data_dir: str) -> int:
    """Every training batch of an epoch; how many images that were."""
    import torch

    from tuner.vision.batches import Batcher, image_set
    from tuner.vision.catalog import DataChoice
    from tuner.vision.epochs import plan_epoch, shards
    from tuner.vision.recipe import Augmentation

    cpu = torch.device("cpu")
    augmentation = Augmentation(crop_padding=SIZE // 8, flip=True)
    images = image_set(DataChoice(f"folder:{place}", data_dir, SIZE), cpu)
    batcher = Batcher(images, dtype=torch.float32, augmentation=augmentation)
    rows_N = images.splits["train"]
    how = {"image_size": SIZE, "augmentation": augmentation, "device": cpu}
    epoch = plan_epoch(rows_N, seed=0, epoch=0, **how)
    for shard in shards(len(rows_N), batch_size=BATCH):
        batcher.training_batch(epoch, shard.positions)
    return len(rows_N)


def their_epoch(place: Path, count: int, workers: int) -> None:
    """As many images of the folder, through a DataLoader."""
    from torch.utils.data import DataLoader, Subset

    warnings.filterwarnings("ignore", message="This DataLoader will create")
    images = image_folder(str(place), padding=SIZE // 8, flip=True)
    for _ in DataLoader(Subset(images, range(count)), BATCH, shuffle=True, num_workers=workers):
        pass


def compare_data(place: Path, options: argparse.Namespace) -> list[float]:
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="if-", dir="/tmp") as folder:
        our_epoch(place, folder)  # imports, and leaves the processor warm
        with tempfile.TemporaryDirectory(prefix="if-", dir="/tmp") as empty:
            from tuner.vision.catalog import DataChoice, pinned

            decoding = cost(lambda: pinned(DataChoice(f"folder:{place}", empty, SIZE)))
        count = our_epoch(place, folder)
        their_epoch(place, min(count, 2 * BATCH), options.workers)
        ratios = []
        for _ in range(max(3, options.rounds)):
            ours = cost(partial(our_epoch, place, folder)) / count
            theirs = cost(partial(their_epoch, place, count, options.workers)) / count
            ratios.append(ours / theirs)
            once = decoding / options.images / options.epochs
            print(
                f"CPU us an image: ours {1e6 * ours:.1f}, theirs {1e6 * theirs:.1f}: "
                f"{ratios[-1]:.4f}; with decoding, of {1e6 * decoding / options.images:.0f} an "
                f"image, over {options.epochs} epochs: {(ours + once) / theirs:.3f}",
                flush=True,
            )
    return ratios


def lines_of(script: str) -> int:
    lines = (line.strip() for line in script.splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--px", type=int, default=400, help="height and width of the JPEGs")
    parser.add_argument("--model", choices=("resnet20", "cnn"), default="resnet20")
    parser.add_argument("--workers", type=int, default=4, help="of the DataLoader")
    parser.add_argument("--only", choices=("data", "search"))
    options = parser.parse_args()
    loader = f"torchvision {version('torchvision')}" if torchvision_works() else "Pillow's steps"
    print(f"{len(os.sched_getaffinity(0))} CPUs, {platform.machine()}; beside: {loader}")
    print(f"python {platform.python_version()}, torch {version('torch')}, ray {version('ray')}")
    print(f"{options.images} images of {options.px} px, {options.trials} trials of {options.model}")
    print(f"lines that a user writes: 0 (one command), plain Ray Tune {lines_of(PLAIN)}")
    met = True
    with tempfile.TemporaryDirectory(prefix="if-", dir="/tmp") as folder:
        place = Path(folder) / "photos"
        write_images(place, options.images, options.px)
        for what, compare in (("data", compare_data), ("search", compare_searches)):
            if options.only in (None, what):
                ratios = compare(place, options)
                least, middle, most = min(ratios), statistics.median(ratios), max(ratios)
                met = met and middle <= LARGEST[what]
                print(
                    f"{what}: ours / theirs min {least:.4f}, median {middle:.4f}, max {most:.4f} "
                    f"(n = {len(ratios)}); goal: at most {LARGEST[what]}"
                )
    return 0 if met or options.images < IMAGES or options.trials < TRIALS else 1


if __name__ == "__main__":
    sys.exit(main())
