"""What ships with tuner, by name: models and data sets, and where each is built.

Nothing here imports torch, so a spec is checked against it in milliseconds. To add a model or a
data set: write its module, add one line to MODELS or DATASETS, and give it a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

METRICS = (
    "train_loss",
    "val_loss",
    "val_accuracy",
    "lr",
    "micro_batch_size",
    "images_per_s",
    "epoch_s",
)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that ships: where it is built, what it alone uses, which images it takes.

    `settings` maps each hyperparameter that only some models have to this model's default;
    images are square, of `smallest` to `largest` px, with `channels` channels (None: any number);
    `layers` is the most stages that it can be split into.
    """

    builder: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    smallest: int = 1
    largest: int = 4096
    channels: int | None = None
    layers: int = 1

    def takes(self, *, channels: int, image_size: int) -> bool:
        """Whether the model can be built for images of this shape."""
        return self.channels in (None, channels) and self.smallest <= image_size <= self.largest

    def needs(self) -> str:
        """The images it takes, in words."""
        size = f"{self.smallest}x{self.smallest}"
        if self.smallest == self.largest:
            return f"{self.channels or 'C'}x{size} images"
        return f"images of at least {size}"


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A data set that ships: where it is loaded, its shape, its splits, its pixel statistics.

    `train`, `validation` and `test` count images; `mean` and `std` hold one value a channel, of
    pixels scaled to [0, 1]; `files` says whether it is read from `data_dir`, and `archive` what it
    is downloaded as, if anything. `classes` are the labels' names in their order. `title`, `origin`
    and `licence` are for who is handed a model.
    """

    builder: str
    channels: int
    image_size: int
    classes: tuple[str, ...]
    train: int
    validation: int
    test: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    files: bool
    title: str
    origin: str
    licence: str
    archive: str | None = None

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)


MODELS: dict[str, ModelInfo] = {
    "cnn": ModelInfo(
        "tuner.classifier.models.cnn:SmallCNN",
        {"width": 16, "norm": "batch"},
        smallest=4,
        layers=12,
    ),
    "net": ModelInfo(
        "tuner.classifier.models.net:Net",
        {"l1": 120, "l2": 84},
        smallest=32,
        largest=32,
        channels=3,
    ),
    "resnet20": ModelInfo(
        "tuner.classifier.models.resnet20:ResNet20", {"norm": "batch"}, smallest=8, layers=14
    ),
    "resnet18": ModelInfo(
        "tuner.classifier.models.resnet18:ResNet18", {"norm": "batch"}, smallest=16, layers=13
    ),
    "speednet": ModelInfo(
        "tuner.classifier.models.speednet:SpeedNet", {"width": 64, "norm": "batch"}, smallest=17
    ),
}

DATASETS: dict[str, DatasetInfo] = {
    "digits": DatasetInfo(
        "tuner.classifier.data.digits:load",
        channels=1,
        image_size=8,
        classes=tuple("0123456789"),
        train=1077,
        validation=360,
        test=360,
        mean=(0.2873,),
        std=(0.3539,),
        files=False,
        title="scikit-learn's handwritten digits, 8x8 px; their pixels, 0 to 16, are divided by 17",
        origin="the test part of Alpaydin and Kaynak's Optical Recognition of Handwritten Digits "
        "(1998), UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/80",
        licence="CC BY 4.0",
    ),
    "cifar10": DatasetInfo(
        "tuner.classifier.data.cifar10:load",
        channels=3,
        image_size=32,
        classes=(
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
        train=45_000,
        validation=5_000,
        test=10_000,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        files=True,
        title="CIFAR-10, colour photographs of 32x32 px",
        origin="Krizhevsky, Learning Multiple Layers of Features from Tiny Images (2009), "
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; its author asks to cite the report above",
        archive="tuner.classifier.data.cifar10:OFFICIAL",
    ),
}


def load_builder(path: str) -> Any:
    """The object at the dotted path "package.module:name"; imports its module."""
    return resolve_name(path)
