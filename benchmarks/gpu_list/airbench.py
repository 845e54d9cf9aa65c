"""The training loop of airbench94 beside speednet's, on the same random images and the same device.

After Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024), and written anew: its
network in half precision with norms in float32, its augmentation once an epoch, Nesterov SGD with a
large rate for the biases of norms, and Lookahead. What it learns from the data before it trains,
which takes no part of a step, is left out.
"""

from __future__ import annotations

import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.gpu import RECIPE, register
from tuner.classifier.image_classifier import ImageClassifier

BATCH, BATCHES = 1024, 43  # of 45,000 images, without a last short batch
PADDING = 2
MOMENTUM = 0.85
EVERY = 5  # steps between two of Lookahead's
ROUNDS = 3


class ConvGroup(nn.Sequential):
    """Two convolutions, the first one's result halved in size."""

    def __init__(self, before, after):
        super().__init__(
            nn.Conv2d(before, after, 3, padding="same", bias=False),
            nn.MaxPool2d(2),
            norm(after),
            nn.GELU(),
            nn.Conv2d(after, after, 3, padding="same", bias=False),
            norm(after),
            nn.GELU(),
        )


def norm(channels):
    """BatchNorm with a fast average, whose scale does not train."""
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad_(False)
    return layer


class Scaled(nn.Module):
    """Its input times 1/9."""

    def forward(self, x):
        return x / 9


def network(widths, dtype, device):
    """airbench94's network; the first, whitening layer does not train."""
    whiten = nn.Conv2d(3, 24, 2, bias=True)
    whiten.weight.requires_grad_(False)
    one, two, three = widths
    groups = ConvGroup(24, one), ConvGroup(one, two), ConvGroup(two, three)
    head = nn.MaxPool2d(3), nn.Flatten(), nn.Linear(three, 10, bias=False), Scaled()
    model = nn.Sequential(whiten, nn.GELU(), *groups, *head)
    model = model.to(device, dtype, memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()
    return model


def augmented(images_NCHW):
    """Each image shifted by up to two pixels over its reflection, and every other one mirrored."""
    n, _, height, width = images_NCHW.shape
    padded = F.pad(images_NCHW, (PADDING,) * 4, mode="reflect")
    shifts = torch.randint(0, 2 * PADDING + 1, (n, 2), device=images_NCHW.device)
    out = torch.empty_like(images_NCHW)
    for down in range(2 * PADDING + 1):
        for right in range(2 * PADDING + 1):
            of_both = (shifts[:, 0] == down) & (shifts[:, 1] == right)
            out[of_both] = padded[of_both, :, down : down + height, right : right + width]
    mirrored = torch.rand(n, device=out.device) < 0.5
    return torch.where(mirrored.view(-1, 1, 1, 1), out.flip(-1), out)


def optimizer_of(model):
    """Nesterov SGD; the biases of norms have a rate 64 times as large."""
    images = BATCH * (1 + 1 / (1 - MOMENTUM))  # whose gradients a step amounts to
    lr, decay = 11.5 / images, 0.0153 * BATCH / images
    biases = [p for name, p in model.named_parameters() if p.requires_grad and p.ndim == 1]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    groups = [
        {"params": biases, "lr": 64 * lr, "weight_decay": decay / (64 * lr)},
        {"params": others, "lr": lr, "weight_decay": decay / lr},
    ]
    return torch.optim.SGD(groups, momentum=MOMENTUM, nesterov=True)


class Airbench:
    """Trains epochs of its own loop."""

    def __init__(self, device, *, images, batch, widths):
        self.dtype = torch.half if device == "cuda" else torch.float32
        self.batch, self.count = batch, images
        generator = torch.Generator(device).manual_seed(0)
        shape = (images, 3, 32, 32)
        self.images = torch.randn(shape, generator=generator, device=device).to(
            self.dtype, memory_format=torch.channels_last
        )
        self.labels = torch.randint(0, 10, (images,), generator=generator, device=device)
        self.model = network(widths, self.dtype, device)
        self.optimizer = optimizer_of(self.model)
        self.slow = {k: v.clone() for k, v in self.model.state_dict().items()}

    def epoch(self):
        """Train one epoch; the seconds of it."""
        began = now(self.images.device)
        images = augmented(self.images)
        order = torch.randperm(self.count, device=images.device)
        for step in range(self.count // self.batch):
            rows = order[step * self.batch : (step + 1) * self.batch]
            logits = self.model(images[rows])
            loss = F.cross_entropy(
                logits.float(), self.labels[rows], label_smoothing=0.2, reduction="sum"
            )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            if step % EVERY == EVERY - 1:
                self.look_ahead()
        return now(self.images.device) - began

    @torch.no_grad()
    def look_ahead(self):
        for name, value in self.model.state_dict().items():
            if value.is_floating_point():
                self.slow[name].lerp_(value, 0.5)
                value.copy_(self.slow[name])


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def compared(device, dry):
    """Milliseconds a step of both loops, in turn, and speednet's by airbench94's."""
    batch, batches = (8, 2) if dry else (BATCH, BATCHES)
    register(quick=True, train=batch * batches)
    small = {"width": 4} if dry else {}
    recipe = {**RECIPE, **small, "batch_size": batch, "epochs": 100}
    ours = ImageClassifier({}, recipe, device=device)
    widths = (4, 8, 8) if dry else (64, 256, 256)
    theirs = Airbench(device, images=batch * batches, batch=batch, widths=widths)
    for _ in range(2):  # warm-up
        ours.step()
        theirs.epoch()
    times = {"speednet": [], "airbench94": []}
    for _ in range(1 if dry else ROUNDS * 5):
        times["speednet"].append(batch * batches / ours.step()["images_per_s"])
        times["airbench94"].append(theirs.epoch())
    for name, seconds in times.items():
        median = statistics.median(seconds) / batches
        yield f"{name}: ms a step; images/s", f"{1e3 * median:.2f}; {batch / median:,.0f}"
    ratios = [one / other for one, other in zip(*times.values(), strict=True)]
    spread = " / ".join(f"{f(ratios):.2f}" for f in (min, statistics.median, max))
    yield f"speednet by airbench94, min / median / max of {len(ratios)} epochs in turn", spread
