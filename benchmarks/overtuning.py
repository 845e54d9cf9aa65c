"""Does a search's answer survive new data? Holdout, folds and resplits at equal training, no Ray.

    python -m benchmarks.overtuning [--searches 20] [--sets digits,breast_cancer,wine]
    python -m benchmarks.overtuning --cache DIR --sets objects,textures,fine

scikit-learn's small sets as 8x8 images, or 20 photos a class of benchmarks.finetune for a head on
its pretrained network (made once for each DIR); most are held out for the test. Each search draws
its own split and its own random configs after the default one, stops trials by ASHA, and its winner
is retrained on all images but the test's, as `tuner refit` does. All lines but the last train as
many images as `holdout`; the last tries as many configs. A regret is the test loss of a winner
above the least one of the default and the winners of all lines.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
import torch

from benchmarks.finetune import network, photos
from tuner.experiment.results.statistics import wilson
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space
from tuner.vision.catalog import DATASETS
from tuner.vision.datasets._dataset import (
    DatasetInfo,
    ImageArrays,
    split_train_validation_test,
)
from tuner.vision.image_classifier import ImageClassifier

Config = Mapping[str, Any]
Row = tuple[float, float, float, "Answer"]  # test loss of the winner, default and least; Answer
TABLES = {"digits": 120, "breast_cancer": 120, "wine": 80}  # images that are not tested
PHOTOS, TESTED = 20, 60  # of each class
SETS = {**TABLES, **{name: PHOTOS * len(photos.SETS[name].kinds) for name in photos.SETS}}
VALIDATION = 0.15  # of these
SIZE = 8  # px
TRIALS, EPOCHS, FOLDS = 24, 10, 5
SPACE = {
    "lr": "loguniform(1e-3, 0.1)",
    "weight_decay": "loguniform(1e-3, 1)",
    "label_smoothing": "uniform(0, 0.2)",
}
DEFAULT = {"lr": 0.02, "weight_decay": 0.05, "label_smoothing": 0.05}
TRAINING = {"model": "cnn", "width": 8, "batch_size": 32, "optimizer": "adamw"}
OF_HEAD = {
    "lr": "loguniform(1e-4, 0.1)",
    **{k: SPACE[k] for k in ("weight_decay", "label_smoothing")},
}
DEFAULT_HEAD = {"lr": 1e-3, "weight_decay": 0.05, "label_smoothing": 0.05}
HEAD = {"model": "resnet10", "train_layers": "head", "batch_size": 32, "optimizer": "adamw"}
REFITS = 2  # seeds that the test loss of a config is the mean of


@cache
def arrays_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels): photos, or 8x8x1 features by their ranks, each a square, the rest black."""
    if name in photos.SETS:
        photo_set = photos.SETS[name]
        labels = np.repeat(np.arange(len(photo_set.kinds)), PHOTOS + TESTED)
        jpegs = (photo_set.photo(k, n % (PHOTOS + TESTED)) for n, k in enumerate(labels))
        return np.stack([photos.decoded(jpeg, network.PX) for jpeg in jpegs]), labels
    table = getattr(sklearn.datasets, f"load_{name}")()
    values = table.data
    if name != "digits":
        values = values.argsort(0).argsort(0) / len(values)
    side = int(np.ceil(np.sqrt(values.shape[1])))
    grid = np.zeros((len(values), side**2))
    grid[:, : values.shape[1]] = values / values.max()
    images = np.zeros((len(values), SIZE, SIZE))
    scaled = np.kron(grid.reshape(-1, side, side), np.ones((1, SIZE // side, SIZE // side)))
    images[:, : scaled.shape[1], : scaled.shape[2]] = scaled
    return (255 * images).astype(np.uint8)[..., None], table.target.astype(np.int64)


def info_of(name: str) -> DatasetInfo:
    """The set as one that ships; `split_seed` decides which images are held out."""
    images, labels = arrays_of(name)
    validation, test = round(VALIDATION * SETS[name]), len(labels) - SETS[name]

    def load(folder: Path, *, split_seed: int) -> ImageArrays:
        sizes: Any = {"validation": validation, "test": test, "seed": split_seed}
        return ImageArrays(images, labels, split_train_validation_test(labels, **sizes))

    return DatasetInfo(
        load,
        channels=images.shape[3],
        image_size=images.shape[1],
        classes=tuple(map(str, range(int(labels.max()) + 1))),
        train=SETS[name] - validation,
        validation=validation,
        test=test,
        mean=tuple(images.mean((0, 1, 2)) / 255),
        std=tuple(images.std((0, 1, 2)) / 255),
        files=False,
        title=name,
        origin="scikit-learn or benchmarks.finetune",
        licence="",
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The best (config, step) of a search, the same among last steps alone, and what it cost."""

    best: tuple[int, int]
    last: tuple[int, int]
    images: float
    trials: int


def search(
    configs: Sequence[Config],
    constants: Mapping[str, Any],
    *,
    images: Callable[[int], float] | float,
    steps: int,
    grace: int,
    budget: float | None = None,
    reseed: bool = False,
) -> Answer:
    """Train configs in their order, stopped by ASHA, until `budget` images are trained.

    images: of a step. reseed: each trial has a seed of its own.
    """
    rule = Brackets(AshaSettings(max_t=steps, grace_period=grace))
    losses: dict[tuple[int, int], float] = {}
    spent, trials = 0.0, 0
    for number, config in enumerate(configs):
        # Half a trial more or less, so that the budget is met in the mean
        if budget is not None and number and spent + spent / number / 2 > budget:
            break
        seed = constants["seed"] + (1000 + number if reseed else 0)
        learner = ImageClassifier(config, {**constants, "epochs": steps, "seed": seed})
        trials += 1
        for step in range(1, steps + 1):
            losses[number, step] = loss = learner.step()["val_loss"]
            spent += images
            if not rule.goes_on(f"{number:05}", step, loss):
                break
    complete = [place for place in losses if place[1] == steps]
    return Answer(min(losses, key=losses.get), min(complete, key=losses.get), spent, trials)


def test_loss(config: Config, constants: Mapping[str, Any], epochs: int) -> float:
    """The mean test loss of refits on all images but the test's, for so many epochs."""
    losses = []
    for seed in range(REFITS):
        values = {**constants, "train_on": "train+validation", "epochs": EPOCHS}
        learner = ImageClassifier(config, {**values, "seed": constants["seed"] + 10 + seed})
        for _ in range(epochs):
            learner.step()
        losses.append(learner.test()["test_loss"])
    return statistics.fmean(losses)


def compared(name: str, seed: int, weights: Path | None) -> Iterator[tuple[str, Row]]:
    """(line, test loss of its winner, of the default, the least of all lines, Answer)."""
    encoding = Encoding(parse_space(OF_HEAD if weights else SPACE))
    rng = np.random.default_rng(seed)
    drawn = [encoding.decode(u_D) for u_D in rng.random((TRIALS - 1, len(encoding)))]
    configs: list[Config] = [DEFAULT_HEAD if weights else DEFAULT, *drawn]
    training = {**HEAD, "start_from": str(weights)} if weights else TRAINING
    constants = {**training, "dataset": name, "split_seed": seed, "seed": 100_000 * seed}
    train, searched = DATASETS[name].train, SETS[name]
    grace = AshaSettings(max_t=EPOCHS).settled(TRIALS).grace_period or 1
    epochs: Any = {"images": train, "steps": EPOCHS, "grace": grace}
    holdout = search(configs, constants, **epochs)
    budget = holdout.images
    folded = {**constants, "folds": FOLDS, "fold_epochs": EPOCHS}
    fold = EPOCHS * searched * (1 - 1 / FOLDS)
    in_folds: Any = {"images": fold, "steps": FOLDS, "grace": 1}
    resplit = search(configs, {**constants, "resplit": True}, **epochs, reseed=True)
    equal = search(configs, folded, **in_folds, budget=budget)
    longer = search(configs, folded, **in_folds)
    winners = {
        "holdout": (holdout, *holdout.best),
        "holdout, last epoch": (holdout, *holdout.last),
        "resplit": (resplit, *resplit.best),
        f"folds: {FOLDS}": (equal, equal.last[0], EPOCHS),
        f"folds: {FOLDS}, all configs": (longer, longer.last[0], EPOCHS),
    }
    measure = cache(lambda number, length: test_loss(configs[number], constants, length))
    losses = {line: measure(*winner) for line, (_, *winner) in winners.items()}
    default = measure(0, EPOCHS)
    for line, loss in losses.items():
        yield line, (loss, default, min(default, *losses.values()), winners[line][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--sets", default=",".join(TABLES))
    parser.add_argument("--cache", type=Path, help="a folder for the pretrained network of photos")
    arguments = parser.parse_args()
    names = arguments.sets.split(",")
    torch.set_num_threads(1)
    print(f"{len(os.sched_getaffinity(0))} CPUs, {platform.machine()}, python", end=" ")
    print(f"{platform.python_version()}, torch {version('torch')}")
    DATASETS.update({name: info_of(name) for name in names})
    of_photos = photos.SETS.keys() & names
    weights = network.pretrained(arguments.cache) if of_photos else None
    rows: dict[str, list[Row]] = {}
    for seed in range(arguments.searches):
        for name in names:
            began = time.process_time()
            for line, row in compared(name, seed, weights if name in of_photos else None):
                rows.setdefault(line, []).append(row)
                print(name, seed, line, *row, sep=" | ")
            print(f"{time.process_time() - began:.0f} CPU s", flush=True)
    print("| | worse than the default | mean regret | of holdout's | trials | images |")
    for line, results in rows.items():
        print(f"| {line} | {' | '.join(_cells(results, rows['holdout']))} |")


def _cells(results: Sequence[Row], holdout: Sequence[Row]) -> Iterator[str]:
    """The share of winners that are worse than the default, and its interval; the mean regret, its
    ratio to that of `holdout`, and the bootstrap's interval; the mean trials and trained images.
    """
    count = len(results)
    regrets, base = (np.array([r[0] - r[2] for r in each]) for each in (results, holdout))
    worse = sum(loss > default for loss, default, _, _ in results)
    low, high = wilson(worse / count, count)
    yield f"{worse} of {count} = {worse / count:.0%} ({low:.0%} to {high:.0%})"
    yield f"{regrets.mean():.3f}"
    drawn = np.random.default_rng(0).integers(count, size=(20_000, count))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = regrets[drawn].mean(1) / base[drawn].mean(1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        yield f"{regrets.mean() / base.mean():.2f} ({low:.2f} to {high:.2f})"
    yield f"{statistics.fmean(answer.trials for *_, answer in results):.1f}"
    yield f"{statistics.fmean(answer.images for *_, answer in results):,.0f}"


if __name__ == "__main__":
    main()
