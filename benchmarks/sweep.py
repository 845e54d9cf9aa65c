"""One search four ways, timed as a whole command: what tuner costs and what it saves.

    python -m benchmarks.sweep [--rounds 3] [--trials 50] [--ways tuner,tutorial,tuned,floor]

The search is `tuner run digits --search random`. All ways use the same configs, model, training,
ASHA and one CPU per trial, and run as many trials at a time as there are CPUs. Each way is a
process of its own, and the ways take turns:

tuner     that with `--no-evaluate`, since the other ways do not use the test split
tutorial  Ray Tune as in the PyTorch tutorial: a function that reads the data set for every trial, a
          DataLoader of samples, a checkpoint per epoch, Tune's defaults (the tutorial's DataLoaders
          have 8 workers; here they have none, which is faster on images of 8x8)
tuned     the same with reuse_actors=True, and with tuner's data path instead of the DataLoaders
floor     a pool of plain processes that train the configs up to the epochs where tuner stopped
          them, with no Ray, no decisions, no record and no checkpoints

ASHA decides by what has been reported so far, so the ways train different numbers of epochs, which
are printed. The time to the first report also starts with the command. Exits with 1 if a median of
the ratios misses its aim (only with the full 50 trials).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from math import ceil
from pathlib import Path

from tuner.experiment.events import RESULT, TRIAL_STARTED
from tuner.experiment.reading import read
from tuner.experiment.resolve import load_experiment
from tuner.spec.experiment import ExperimentSpec, build_spec

EXPERIMENT = "digits"
SEED = 0
TRIALS = 50
SEARCH = {"strategy": "random"}  # whose configs do not depend on what trials report
MEAN = 0.2873
STD = 0.3539  # of the pixels in 0 to 1
WAYS = ("tuner", "tutorial", "tuned", "floor")
# (what, numerator, denominator, bar, whether it is to be at least or at most that)
BARS = (
    ("whole", "tutorial", "tuner", 6.0, "least"),
    ("whole", "tuned", "tuner", 1.4, "least"),
    ("whole", "tuner", "floor", 1.5, "most"),
    ("first report", "tuner", "tuned", 0.6, "most"),
)


def spec_of(trials: int) -> ExperimentSpec:
    raw = load_experiment(EXPERIMENT).raw
    changes = {
        "num_samples": trials,
        "seed": SEED,
        "search": {**raw["search"], **SEARCH},
    }
    return build_spec({"name": EXPERIMENT, **raw, **changes})


def run_tuner(folder: Path, trials: int) -> dict:
    """One run from the command line; what its journal tells."""
    name = EXPERIMENT
    command = [
        sys.executable,
        "-m",
        "tuner",
        "run",
        name,
        "--no-evaluate",
        "--name",
        name,
    ]
    command += [
        "--num-samples",
        str(trials),
        "--seed",
        str(SEED),
        "--storage",
        str(folder),
    ]
    command += ["--cpus", "1", "--search", SEARCH["strategy"]]
    started = time.time()
    subprocess.run(command, check=True, capture_output=True)
    ended = time.time()
    epochs: dict[str, int] = {}
    configs: dict[str, dict] = {}
    first = ended
    for event in read(folder / name):
        if event["event"] == TRIAL_STARTED:
            configs[event["trial_id"]] = event["config"]
        elif event["event"] == RESULT:
            first = min(first, event["time"])
            epochs[event["trial_id"]] = event["epoch"]
    plan = [(configs[trial_id], epochs[trial_id]) for trial_id in sorted(configs)]
    return {
        "whole": ended - started,
        "first report": first - started,
        "epochs": sum(epochs.values()),
        "plan": plan,
    }


def run_other(way: str, folder: Path, plan: list) -> dict:
    """One run of another way in a process of its own."""
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-m", "benchmarks.sweep", "--inside", way, str(folder)]
    started = time.time()
    subprocess.run(command, check=True, capture_output=True)
    ended = time.time()
    reports = [float(line) for line in (folder / "reports").read_text().split()]
    return {
        "whole": ended - started,
        "first report": min(reports) - started,
        "epochs": len(reports),
    }


def tell(folder: str) -> None:
    """Write down that an epoch has been reported, and when."""
    with open(f"{folder}/reports", "a") as file:
        file.write(f"{time.time()}\n")


# --- floor: plain processes -------------------------------------------------------------------


def begin_process() -> None:
    import torch

    torch.set_num_threads(1)


def train_plainly(constants: dict, folder: str, job: tuple[dict, int]) -> None:
    from tuner.vision.image_classifier import ImageClassifier

    config, epochs = job
    learner = ImageClassifier(config, constants)
    for _ in range(epochs):
        learner.step()
        tell(folder)


def floor(folder: Path, plan: list) -> None:
    import multiprocessing

    train = partial(train_plainly, spec_of(len(plan)).constants, str(folder))
    cpus = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("spawn").Pool(cpus, begin_process) as pool:
        for _ in pool.imap_unordered(train, plan, chunksize=1):
            pass


# --- tuned and tutorial: Ray Tune without tuner -----------------------------------------------


def samples(batch_size: int, seed: int):
    """The tutorial's batches: (of a training epoch, of validation), each a function of the epoch.

    A data set that is read anew, and images that a DataLoader takes one by one.
    """
    import torch
    from sklearn.datasets import load_digits
    from torch.utils.data import DataLoader, Dataset, random_split

    class Digits(Dataset):
        def __init__(self) -> None:
            digits = load_digits()
            self.images = digits.images
            self.labels = digits.target

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, index: int):
            image = (
                torch.tensor(self.images[index], dtype=torch.float32)
                .unsqueeze(0)
                .div(16)
            )
            return (image - MEAN) / STD, int(self.labels[index])

    train_set, val_set, _ = random_split(Digits(), [1077, 360, 360])
    train_loader = DataLoader(train_set, batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size, shuffle=True)
    return (lambda epoch: train_loader), (lambda epoch: val_loader)


def whole_batches(batch_size: int, seed: int):
    """The same of tuner's data path: uint8 in memory, read once a process, a batch at once."""
    import torch

    from tuner.vision.batches import Batcher, load_image_set
    from tuner.vision.catalog import DataChoice
    from tuner.vision.epochs import plan_epoch
    from tuner.vision.recipe import Augmentation

    cpu = torch.device("cpu")
    plain = Augmentation()
    images = load_image_set(DataChoice(EXPERIMENT), cpu)
    batcher = Batcher(images, dtype=torch.float32, augmentation=plain)
    train_N = images.splits["train"]
    val_N = images.splits["validation"]

    def training(epoch: int):
        planned = plan_epoch(
            train_N,
            seed=seed,
            epoch=epoch,
            image_size=8,
            augmentation=plain,
            device=cpu,
        )
        for start in range(0, len(train_N), batch_size):
            yield batcher.build_training_batch(
                planned, slice(start, start + batch_size)
            )

    return training, (lambda epoch: map(batcher.build_batch, val_N.split(125)))


def train(config: dict, *, constants: dict, folder: str, data) -> None:
    """The tutorial's function: model, optimizer and loops written out."""
    import torch
    import torch.nn.functional as F
    from ray import tune
    from torch import nn

    from tuner.vision.models.cnn import build

    torch.set_num_threads(1)
    torch.manual_seed(constants["seed"])
    model = build(width=constants["width"], in_channels=1, num_classes=10, norm="batch")
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=config["lr"],
        momentum=config["momentum"],
        weight_decay=config["weight_decay"],
        nesterov=True,
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=constants["label_smoothing"])
    training, validation = data(config["batch_size"], constants["seed"])
    steps = constants["epochs"] * ceil(1077 / config["batch_size"])
    lr_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(constants["epochs"]):
        model.train()
        for images, labels in training(epoch):
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            lr_schedule.step()
        model.eval()
        val_loss = 0.0
        right = 0
        total = 0
        with torch.no_grad():
            for images, labels in validation(epoch):
                outputs = model(images)
                right += (outputs.argmax(1) == labels).sum().item()
                val_loss += F.cross_entropy(outputs, labels, reduction="sum").item()
                total += len(labels)
        metrics = {"val_loss": val_loss / total, "val_accuracy": right / total}
        with tempfile.TemporaryDirectory() as directory:
            state = {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, Path(directory, "state.pt"))
            tell(folder)
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(directory))


def ray_tune(data, folder: Path, plan: list, **options) -> None:
    """The configs of `plan` under Tune's own ASHA, in a local Ray with its defaults."""
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    from ray.tune.search.basic_variant import BasicVariantGenerator

    spec = spec_of(len(plan))
    assert spec.scheduler is not None
    trainable = tune.with_parameters(
        train, constants=spec.constants, folder=str(folder), data=data
    )
    configs = [config for config, _ in plan]
    asha = ASHAScheduler(
        max_t=spec.scheduler.max_t,
        grace_period=spec.scheduler.grace_period,
        reduction_factor=spec.scheduler.reduction_factor,
    )
    tune.run(
        tune.with_resources(trainable, {"cpu": 1}),
        config={name: tune.uniform(0, 1) for name in configs[0]},  # each is given below
        search_alg=BasicVariantGenerator(points_to_evaluate=configs),
        num_samples=len(configs),
        metric=spec.objective.metric,
        mode=spec.objective.mode,
        scheduler=asha,
        storage_path=str(folder / "tune"),
        **options,
    )


def inside(way: str, folder: Path) -> None:
    """The body of another way's process."""
    plan = json.loads((folder / "plan.json").read_text())
    if way == "floor":
        floor(folder, plan)
        return
    import ray

    with tempfile.TemporaryDirectory(prefix="sweep-", dir="/tmp") as temporary:
        ray.init(
            address="local",  # not one that somebody else has started
            num_cpus=len(os.sched_getaffinity(0)),
            object_store_memory=500 << 20,
            _temp_dir=temporary,
        )
        if way == "tuned":
            ray_tune(whole_batches, folder, plan, reuse_actors=True)
        else:
            ray_tune(samples, folder, plan)
        ray.shutdown()


def measure(way: str, plan: list, trials: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        if way == "tuner":
            return run_tuner(Path(folder), trials)
        return run_other(way, Path(folder), plan)


def print_ratios(rounds: list[dict[str, dict]]) -> bool:
    """The ratios within each round; whether all medians reach their bars."""
    met = True
    for what, above, below, bar, sense in BARS:
        pairs = [(r[above], r[below]) for r in rounds if above in r and below in r]
        if not pairs:
            continue
        ratios = [a[what] / b[what] for a, b in pairs]
        median = statistics.median(ratios)
        met = met and (median >= bar if sense == "least" else median <= bar)
        print(
            f"{what:12} {above} / {below}: min {min(ratios):.2f}, median {median:.2f}, "
            f"max {max(ratios):.2f} (n = {len(ratios)}); bar: at {sense} {bar}"
        )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument(
        "--ways", default=",".join(WAYS), help="tuner is always among them"
    )
    parser.add_argument(
        "--inside", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.inside:
        inside(options.inside[0], Path(options.inside[1]))
        return 0
    ways = [way for way in WAYS if way == "tuner" or way in options.ways.split(",")]
    print(
        f"{len(os.sched_getaffinity(0))} CPUs, {platform.machine()}, {platform.system()}"
    )
    print(
        f"python {platform.python_version()}, torch {version('torch')}, ray {version('ray')}"
    )
    print(
        f"{options.trials} trials; n = {options.rounds} rounds; load {os.getloadavg()[0]:.1f}"
    )
    rounds: list[dict[str, dict]] = []
    for number in range(options.rounds):
        measured: dict[str, dict] = {}
        for way in ways:  # tuner first: its journal says where the floor's trials stop
            plan = measured["tuner"]["plan"] if measured else []
            measured[way] = measure(way, plan, options.trials)
            print(
                f"round {number + 1}  {way:9} whole {measured[way]['whole']:6.1f} s, "
                f"first report {measured[way]['first report']:5.1f} s, "
                f"{measured[way]['epochs']} epochs, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        rounds.append(measured)
    met = print_ratios(rounds)
    return 0 if met or options.trials < TRIALS else 1


if __name__ == "__main__":
    sys.exit(main())
