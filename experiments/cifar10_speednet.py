"""A Learner in one file: SpeedNet learns CIFAR-10 in ten fast epochs; made for a GPU.

Network and recipe are those of airbench94 (Jordan 2024, "94% on CIFAR-10 in 3.29 Seconds on a
Single GPU", arXiv 2404.00498). It uses nothing of tuner but its public names: copy it as the
pattern of a Learner of your own.

    tuner run cifar10_speednet --gpus 0.25      four trials on each GPU
    tuner evaluate cifar10_speednet             the test split, by the best trial's weights
"""

# N images, B of a batch, C channels, H W pixels, K classes, M patches, P values of a patch

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuner import DataError, ExperimentSpec, UsageError

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
TRAIN_FILES = [f"data_batch_{number}" for number in range(1, 6)]
TEST_FILE = "test_batch"
SIZE = 32  # px
MEAN_C = (0.4914, 0.4822, 0.4465)  # of pixels from 0 to 1
STD_C = (0.2470, 0.2435, 0.2616)

PADDING = 2  # px, on each side of an image that is then cropped
MOMENTUM = 0.85
NORM_BIAS_LR = 64  # the biases of norms learn so many times as fast
LOOKAHEAD_STEPS = 5
LOOKAHEAD_DECAY = 0.774


@dataclass(frozen=True)
class Settings:
    """What `training` and the search may set; another name is refused."""

    epochs: int  # given by tuner: `scheduler.max_t`
    seed: int  # given by tuner: `seed`
    data_dir: str | None = None
    width: int = 64  # channels of the first block
    lr: float = 10.0  # for 1,024 images, as weight_decay is
    weight_decay: float = 0.0133
    label_smoothing: float = 0.2
    batch_size: int = 1024


class SpeedNet(nn.Module):
    """A layer that whitens, three blocks, the maximum over all pixels, a linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        self.blocks = nn.Sequential(
            Block(24, width), Block(width, 4 * width), Block(4 * width, 4 * width)
        )
        self.head = nn.Linear(4 * width, 10, bias=False)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        features_NCHW = self.blocks(F.gelu(self.whiten(x_NCHW)))  # 3x3 px of each image
        logits_NK: Tensor = self.head(F.max_pool2d(features_NCHW, 3).flatten(1)) / 9
        return logits_NK

    @torch.no_grad()
    def learn_whitening(self, x_NCHW: Tensor) -> None:
        """Set the first layer to the principal components of 2x2 patches, each of variance 1.

        They come with both signs, for the activation that follows. Only the bias trains.
        """
        patches_MP = F.unfold(x_NCHW.float(), 2).transpose(1, 2).flatten(0, 1)
        covariance_PP = torch.cov(patches_MP.T).double().cpu()
        variances_P, components_PP = torch.linalg.eigh(covariance_PP)
        # The constant keeps directions of mere noise from being blown up
        kernels_PP = (components_PP / (variances_P + 5e-4).sqrt()).T
        self.whiten.weight.copy_(torch.cat([kernels_PP, -kernels_PP]).view(24, 3, 2, 2))
        nn.init.zeros_(self.whiten.bias)  # type: ignore[arg-type]


class Block(nn.Sequential):
    """3x3 convolution - max pool - norm - GELU - 3x3 convolution - norm - GELU."""

    def __init__(self, in_channels: int, channels: int) -> None:
        conv1 = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        for conv in (conv1, conv2):
            # As many channels as can pass on their input: signals and gradients flow at once
            nn.init.dirac_(conv.weight.data[: conv.in_channels])
        norm1 = nn.BatchNorm2d(channels, momentum=0.4)  # few steps need a fast average
        norm2 = nn.BatchNorm2d(channels, momentum=0.4)
        for norm in (norm1, norm2):
            norm.weight.requires_grad_(False)
        super().__init__(
            conv1, nn.MaxPool2d(2), norm1, nn.GELU(), conv2, norm2, nn.GELU()
        )


class SpeedNetLearner:
    """Trains SpeedNet. All randomness follows from the trial's seed and the number of the epoch.

    So a checkpoint needs no random state, and a restored trial goes on bit for bit on a CPU.
    """

    metrics = ("train_loss", "val_loss", "val_accuracy")
    # It writes nothing, and $TUNER_DATA may be a relative path
    stays_in_start_dir = True

    def __init__(
        self,
        config: Mapping[str, Any],
        constants: Mapping[str, Any],
        *,
        device: torch.device,
        rank: int,
        world_size: int,
    ) -> None:
        if world_size > 1:
            raise UsageError(f"SpeedNet trains with one worker, not {world_size}")
        self.settings = Settings(**{**constants, **config})
        self.device = device
        # Weights, too, are in half precision on a GPU; a CPU would only emulate it
        self.dtype = torch.half if device.type == "cuda" else torch.float32
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # all batches have one shape
        self.read_data()
        torch.manual_seed(self.settings.seed)
        self.model = SpeedNet(self.settings.width).to(device, self.dtype)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for module in self.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.float()  # half precision has too few digits for statistics
        self.model.learn_whitening(self.padded_NHWC[:1000].permute(0, 3, 1, 2))
        self.optimizer = build_optimizer(self.model, self.settings)
        self.epoch = 0

    def read_data(self) -> None:
        """All images, the training images normalised and padded once for all epochs."""
        self.images_NCHW, labels_N = read_cifar10(self.settings.data_dir)
        self.labels_N = labels_N.to(self.device)
        # The last of six files is the test split
        official_train = len(labels_N) * 5 // 6
        shuffled_N = torch.from_numpy(
            np.random.default_rng(0).permutation(official_train)
        )
        train_N = shuffled_N[official_train // 10 :]
        self.splits = {
            # The same for every trial
            "validation": shuffled_N[: official_train // 10],
            "test": torch.arange(official_train, len(labels_N)),
        }
        # Without a last short one
        self.batches = len(train_N) // self.settings.batch_size
        if not self.batches:
            raise UsageError(
                f"batch_size must be at most {len(train_N)}, the training images"
            )
        self.train_labels_N = self.labels_N[train_N]
        x_NCHW = self.normalise(self.images_NCHW[train_N])
        padded_NCHW = F.pad(x_NCHW, (PADDING,) * 4, mode="reflect")
        # Channels last, so that a crop gathers all of a pixel's channels at once
        self.padded_NHWC = padded_NCHW.permute(0, 2, 3, 1).contiguous()
        rng = np.random.default_rng(self.settings.seed)
        self.begins_mirrored_N = rng.integers(2, size=len(train_N))

    def step(self) -> dict[str, float]:
        train_loss = self.train_epoch()
        self.epoch += 1
        loss, accuracy = self.evaluate("validation")
        return {"train_loss": train_loss, "val_loss": loss, "val_accuracy": accuracy}

    def test(self) -> dict[str, float]:
        """The held-out test split, for `tuner evaluate`."""
        loss, accuracy = self.evaluate("test")
        images = len(self.splits["test"])
        return {"test_loss": loss, "test_accuracy": accuracy, "images": images}

    def state_dict(self) -> dict[str, Any]:
        """Without Lookahead's slow weights: at the end of an epoch the model has them."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        # The optimizer would keep the tensors of `state`, and change them at its next step
        self.optimizer.load_state_dict(deepcopy(state["optimizer"]))
        self.epoch = state["epoch"]

    def train_epoch(self) -> float:
        """Train one epoch; the mean loss."""
        size = self.settings.batch_size
        steps = self.settings.epochs * self.batches
        x_NCHW, labels_N = self.augment_epoch()
        tensors: list[Tensor] = [p for p in self.model.parameters() if p.requires_grad]
        tensors += [b for b in self.model.buffers() if b.is_floating_point()]
        slow_tensors = [tensor.detach().clone() for tensor in tensors]
        # Summed on the device: to read it at every step would wait for a GPU at every step
        loss_sum = torch.zeros((), device=self.device)
        self.model.train()
        for batch in range(self.batches):
            rows = slice(batch * size, (batch + 1) * size)
            loss = F.cross_entropy(
                self.model(x_NCHW[rows]).float(),
                labels_N[rows],
                label_smoothing=self.settings.label_smoothing,
                reduction="sum",
            )
            self.optimizer.zero_grad()
            loss.backward()
            loss_sum += loss.detach()
            done = self.epoch * self.batches + batch
            share = np.interp(done, [0, (steps - 1) / 4, steps - 1], [0.2, 1, 0.05])
            for group in self.optimizer.param_groups:
                group["lr"] = float(share) * group["peak_lr"]
            self.optimizer.step()
            if (batch + 1) % LOOKAHEAD_STEPS == 0 or batch + 1 == self.batches:
                keep = LOOKAHEAD_DECAY * min((done + 1) / steps, 1) ** 3
                look_ahead(slow_tensors, tensors, keep=keep)
        return loss_sum.item() / len(labels_N)

    def augment_epoch(self) -> tuple[Tensor, Tensor]:
        """(x_NCHW, labels_N) of all batches of an epoch, in its order.

        Each image is cropped anew, and mirrored in every second epoch, so that two epochs show both
        sides. One gather makes all images, and a batch is a slice of them.
        """
        rng = np.random.default_rng([self.settings.seed, self.epoch])
        count = self.batches * self.settings.batch_size
        row_N = rng.permutation(len(self.train_labels_N))[:count]
        shifts_2N = rng.integers(2 * PADDING + 1, size=(2, count))
        is_mirrored_N = (self.begins_mirrored_N[row_N] + self.epoch) % 2 == 1
        order_N, top_N, left_N, mirrored_N = (
            torch.from_numpy(draws).to(self.device)
            for draws in (row_N, *shifts_2N, is_mirrored_N)
        )
        span = torch.arange(SIZE, device=self.device)
        rows_NH = top_N[:, None] + span
        columns_NW = left_N[:, None] + torch.where(
            mirrored_N[:, None], span.flip(0), span
        )
        x_NHWC = self.padded_NHWC[
            order_N[:, None, None], rows_NH[:, :, None], columns_NW[:, None, :]
        ]
        return x_NHWC.permute(0, 3, 1, 2), self.train_labels_N[order_N]

    @torch.inference_mode()
    def evaluate(self, split: str) -> tuple[float, float]:
        """(mean loss, accuracy) of a split."""
        self.model.eval()
        sums = torch.zeros(2, device=self.device)
        for rows_N in self.splits[split].split(1000):
            labels_N = self.labels_N[rows_N]
            logits_NK = self.average_views(self.normalise(self.images_NCHW[rows_N]))
            sums[0] += F.cross_entropy(logits_NK, labels_N, reduction="sum")
            sums[1] += (logits_NK.argmax(1) == labels_N).sum()
        loss, accuracy = (sums / len(self.splits[split])).tolist()
        return loss, accuracy

    def average_views(self, x_NCHW: Tensor) -> Tensor:
        """The logits_NK of images and, at half the weight, of two shifts; all mirrored as well."""
        padded_NCHW = F.pad(x_NCHW, (1,) * 4, mode="reflect")
        shifts = [padded_NCHW[:, :, :SIZE, :SIZE], padded_NCHW[:, :, 2:, 2:]]
        logits_NK = torch.zeros(len(x_NCHW), 10, device=self.device)
        for view_NCHW, weight in [
            (x_NCHW, 1 / 2),
            (shifts[0], 1 / 4),
            (shifts[1], 1 / 4),
        ]:
            both_NK = self.model(view_NCHW) + self.model(view_NCHW.flip(3))
            logits_NK += weight / 2 * both_NK.float()
        return logits_NK

    def normalise(self, images_NCHW: Tensor) -> Tensor:
        """Bytes on the host to pixels on the device."""
        mean_C11, std_C11 = (
            torch.tensor(stat_C, dtype=self.dtype, device=self.device)[:, None, None]
            for stat_C in (MEAN_C, STD_C)
        )
        x_NCHW = images_NCHW.to(
            self.device, self.dtype, memory_format=torch.channels_last
        )
        return (x_NCHW / 255 - mean_C11) / std_C11


def build_optimizer(model: SpeedNet, settings: Settings) -> torch.optim.SGD:
    """Nesterov SGD whose `lr`, `weight_decay` and `batch_size` can be searched one by one.

    The loss is a sum over images, which also keeps small gradients within half precision, and
    momentum adds up a constant gradient to 1 / (1 - MOMENTUM) times itself. With both divided out,
    and the rate that SGD multiplies the decay by, none of the three changes another's effect.
    """
    lr = settings.lr * (1 - MOMENTUM) / 1024
    decay = settings.weight_decay * (1 - MOMENTUM) * settings.batch_size / 1024
    norm_biases = [m.bias for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    others = [
        model.whiten.bias,
        *(p for p in model.parameters() if p.requires_grad and p.ndim > 1),
    ]
    groups = [
        {"params": params, "lr": rate, "peak_lr": rate, "weight_decay": decay / rate}
        for params, rate in [(others, lr), (norm_biases, NORM_BIAS_LR * lr)]
    ]
    return torch.optim.SGD(groups, momentum=MOMENTUM, nesterov=True, fused=True)


@torch.no_grad()
def look_ahead(
    slow_tensors: list[Tensor], tensors: list[Tensor], *, keep: float
) -> None:
    """Move the slow weights towards the present ones, and go on from there: Zhang et al. 2019.

    It averages out the noise of a large rate. `keep` grows: most is averaged at the end.
    """
    for slow, present in zip(slow_tensors, tensors, strict=True):
        slow.lerp_(present, 1 - keep)
        present.copy_(slow)


@cache  # the trials of a process come one after the other
def read_cifar10(data_dir: str | None) -> tuple[Tensor, Tensor]:
    """(images_NCHW in bytes, labels_N) of the training files and the test file, on the host.

    The archive is where tuner's own data sets are, and downloaded if it is missing.
    """
    folder = Path(
        data_dir or os.environ.get("TUNER_DATA") or "~/.cache/tuner"
    ).expanduser()
    path = folder / "cifar-10-binary.tar.gz"
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            # It appears when it is complete and verified, so trials may do this side by side
            torch.hub.download_url_to_file(URL, str(path), SHA256, progress=False)
        with tarfile.open(path) as archive:  # read in place: nothing is extracted
            names = [
                f"cifar-10-batches-bin/{name}.bin" for name in (*TRAIN_FILES, TEST_FILE)
            ]
            files = [archive.extractfile(name) for name in names]
            content = b"".join(file.read() for file in files if file)
    except (OSError, RuntimeError, KeyError, tarfile.TarError) as error:
        raise DataError(
            f"CIFAR-10 cannot be read from {path}, or from {URL}: {error}"
        ) from error
    # A record is the label and the red, green and blue plane
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(
        -1, 1 + 3 * SIZE**2
    )
    return records[:, 1:].view(-1, 3, SIZE, SIZE), records[:, 0].long()


def experiment() -> ExperimentSpec:
    """40 random configs under ASHA."""
    return ExperimentSpec(
        trainable=SpeedNetLearner,
        search={
            "strategy": "random",
            "space": {
                "lr": "loguniform(1, 50)",
                "weight_decay": "loguniform(1e-3, 1e-1)",
                "label_smoothing": "uniform(0, 0.3)",
                "batch_size": "choice([512, 1024, 2048])",
            },
        },
        objective={"metric": "val_accuracy", "mode": "max"},
        scheduler={"max_t": 10, "grace_period": 2, "reduction_factor": 3},
        num_samples=40,
    )
