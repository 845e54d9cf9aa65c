"""tuner's ResNet-10 in plain torch: trained on made photographs, and kept as safetensors."""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.finetune import photos

PX = 64  # which tuner trains on, too
PHOTOS = 400  # of each class, for the pretraining
EPOCHS = 10
BATCH = 32


def network(num_classes: int, weights: Path | None = None) -> nn.Module:
    """tuner's resnet10 with its default settings; from `weights` all is taken but the head."""
    from tuner.vision.catalog import MODELS

    info = MODELS["resnet10"]
    model = info.build(in_channels=3, num_classes=num_classes, **info.defaults)
    if weights is not None:
        from safetensors.torch import load_file

        state = {n: w for n, w in load_file(weights).items() if not n.startswith("head.")}
        model.load_state_dict(state, strict=False)
    return model.to(memory_format=torch.channels_last)


class Photos:
    """Photos in memory. x_NCHW: float, normalised by the mean and deviation of `like` or itself."""

    def __init__(self, pixels_NHWC: np.ndarray, labels_N: np.ndarray, like: Photos | None = None):
        x_NCHW = torch.from_numpy(pixels_NHWC).permute(0, 3, 1, 2).float().div_(255)
        self.mean = x_NCHW.mean((0, 2, 3), keepdim=True) if like is None else like.mean
        self.std = x_NCHW.std((0, 2, 3), keepdim=True) if like is None else like.std
        self.x_NCHW = ((x_NCHW - self.mean) / self.std).to(memory_format=torch.channels_last)
        self.labels_N = torch.from_numpy(labels_N)

    def __len__(self) -> int:
        return len(self.labels_N)


Augment = Callable[[Tensor, torch.Generator], Tensor]


def cropped(
    x_NCHW: Tensor,
    rng: torch.Generator,
    *,
    scale: tuple[float, float] = (0.5, 1.0),
    degrees: float = 0,
    light: float = 0,
) -> Tensor:
    """Random resized crops, mirrored half of the time, turned and lit differently."""
    n = len(x_NCHW)

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(n).uniform_(low, high, generator=rng)

    area, ratio = uniform(*scale), uniform(-0.28, 0.28).exp()
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    turn = uniform(-degrees, degrees) * torch.pi / 180
    flip = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    theta_N23 = torch.zeros(n, 2, 3)
    theta_N23[:, 0, 0], theta_N23[:, 0, 1] = width * turn.cos() * flip, -width * turn.sin()
    theta_N23[:, 1, 0], theta_N23[:, 1, 1] = height * turn.sin() * flip, height * turn.cos()
    theta_N23[:, 0, 2] = uniform(-1, 1) * (1 - width)
    theta_N23[:, 1, 2] = uniform(-1, 1) * (1 - height)
    grid = F.affine_grid(theta_N23, list(x_NCHW.shape), align_corners=False)
    x_NCHW = F.grid_sample(x_NCHW, grid, padding_mode="reflection", align_corners=False)
    if light:
        gain, bias = 1 + uniform(-light, light), uniform(-light, light)
        x_NCHW = x_NCHW * gain[:, None, None, None] + bias[:, None, None, None]
    return x_NCHW


def batches(
    data: Photos, size: int, rng: torch.Generator, augment: Augment
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch, shuffled; what is left over at its end is dropped, if there is any full batch."""
    size = min(size, len(data))
    order_N = torch.randperm(len(data), generator=rng)
    for rows in order_N[: len(data) // size * size].split(size):
        yield augment(data.x_NCHW[rows], rng), data.labels_N[rows]


@torch.no_grad()
def logits_of(model: nn.Module, data: Photos) -> Tensor:
    model.eval()
    return torch.cat([model(x_NCHW) for x_NCHW in data.x_NCHW.split(250)])


def accuracy(model: nn.Module, data: Photos) -> float:
    return (logits_of(model, data).argmax(1) == data.labels_N).float().mean().item()


def one_cycle(
    optimizer: torch.optim.Optimizer,
    rates: Sequence[float],
    steps: int,
    rise: float,
    *,
    div: float = 25,
    momenta: tuple[float, float] | None = None,
) -> torch.optim.lr_scheduler.OneCycleLR:
    """Rise from rate / div in the part `rise` of the steps, then fall to near 0, by cosines.

    momenta: the least and the largest; the momentum falls as the rate rises.
    """
    low, high = momenta or (0.9, 0.9)
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        list(rates),
        total_steps=max(2, steps),
        pct_start=rise,
        div_factor=div,
        cycle_momentum=momenta is not None,
        base_momentum=low,
        max_momentum=high,
    )


def pretrained(cache: Path, report: Callable[[str], None] = lambda line: None) -> Path:
    """The weights trained on the classes of PRETRAINING; trained once, within minutes."""
    path = cache / "pretrained.safetensors"
    if path.is_file():
        return path
    from safetensors.torch import save_file

    data = pretraining_photos(cache)
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(0)
    model = network(len(photos.PRETRAINING.kinds))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    schedule = one_cycle(optimizer, [4e-3], EPOCHS * (len(data) // BATCH), 0.2)
    for epoch in range(EPOCHS):
        model.train()
        total = count = 0.0
        for x_NCHW, labels_N in batches(data, BATCH, rng, cropped):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x_NCHW), labels_N, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            schedule.step()
            total, count = total + loss.item(), count + 1
        report(f"pretraining: epoch {epoch + 1} of {EPOCHS}, loss {total / count:.3f}")
    part = path.with_suffix(".part")
    save_file({name: w.contiguous() for name, w in model.state_dict().items()}, part)
    part.rename(path)
    return path


def pretraining_photos(cache: Path) -> Photos:
    """The photos of PRETRAINING, made once."""
    path = cache / "pretraining.npz"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        labels = [k for k in range(len(photos.PRETRAINING.kinds)) for _ in range(PHOTOS)]
        made = [photos.PRETRAINING.photo(k, n % PHOTOS) for n, k in enumerate(labels)]
        pixels = np.stack([photos.decoded(jpeg, PX) for jpeg in made])
        np.savez(path, pixels=pixels, labels=np.array(labels))
    with np.load(path) as file:
        return Photos(file["pixels"], file["labels"])
