"""The training loop of airbench94 beside speednet's, on the same random images and the same device.

After Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024), and written anew: its
network in half precision with norms in float32, its augmentation once an epoch of images that were
padded and mirrored before the first, Nesterov SGD with a large rate for the biases of norms, a
triangular schedule, and Lookahead from the fourth epoch on. What it learns from the data before it
trains, which takes no part of a step, is left out.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.gpu import speednet

BATCH = 1024
BATCHES = 43  # of 45,000 images, without a last short batch
PADDING = 2
MOMENTUM = 0.85
EPOCHS = 10
EVERY = 5
AVERAGED_FROM = 3  # steps between two of Lookahead's; epochs before its first
WARM_UP = 4
ROUNDS = 3  # epochs; from the fifth on all loops do all that they ever do


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


def prepared(images_NCHW):
    """Every other image mirrored, all of them padded by their reflection: once for all epochs."""
    mirrored = torch.rand(len(images_NCHW), device=images_NCHW.device) < 0.5
    images = torch.where(mirrored.view(-1, 1, 1, 1), images_NCHW.flip(-1), images_NCHW)
    return F.pad(images, (PADDING,) * 4, mode="reflect")


def augmented(padded_NCHW, epoch):
    """A crop of each padded image at chance; in every second epoch all of them mirrored."""
    n, channels, height, width = padded_NCHW.shape
    height = height - 2 * PADDING
    width = width - 2 * PADDING
    shifts = torch.randint(0, 2 * PADDING + 1, (n, 2), device=padded_NCHW.device)
    out = padded_NCHW.new_empty((n, channels, height, width))
    for down in range(2 * PADDING + 1):
        for right in range(2 * PADDING + 1):
            of_both = (shifts[:, 0] == down) & (shifts[:, 1] == right)
            out[of_both] = padded_NCHW[
                of_both, :, down : down + height, right : right + width
            ]
    return out.flip(-1) if epoch % 2 else out


def optimizer_of(model):
    """Nesterov SGD; the biases of norms have a rate 64 times as large."""
    images = BATCH * (1 + 1 / (1 - MOMENTUM))  # whose gradients a step amounts to
    lr = 11.5 / images
    decay = 0.0153 * BATCH / images
    biases = [
        p for name, p in model.named_parameters() if p.requires_grad and p.ndim == 1
    ]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    groups = [
        {"params": biases, "lr": 64 * lr, "weight_decay": decay / (64 * lr)},
        {"params": others, "lr": lr, "weight_decay": decay / lr},
    ]
    return torch.optim.SGD(groups, momentum=MOMENTUM, nesterov=True)


def triangle(step, *, steps):
    """The rate as a share of the largest: from 0.2 up to 1 at 23 % of the steps, down to 0.07."""
    peak = max(int(0.23 * steps), 1)
    if step < peak:
        return 0.2 + 0.8 * step / peak
    return 1 - 0.93 * min(step - peak, steps - peak) / max(steps - peak, 1)


class Airbench:
    """Trains epochs of its own loop; beyond `EPOCHS` as in the last one."""

    def __init__(self, device, *, images, batch, widths):
        self.dtype = torch.half if device == "cuda" else torch.float32
        self.batch = batch
        self.count = images
        generator = torch.Generator(device).manual_seed(0)
        shape = (images, 3, 32, 32)
        made = torch.randn(shape, generator=generator, device=device)
        self.images = prepared(made.to(self.dtype, memory_format=torch.channels_last))
        self.labels = torch.randint(
            0, 10, (images,), generator=generator, device=device
        )
        self.model = network(widths, self.dtype, device)
        self.optimizer = optimizer_of(self.model)
        self.steps = EPOCHS * (images // batch)
        rate = partial(triangle, steps=self.steps)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate)
        self.epochs = 0
        self.done = 0
        self.slow = None

    def epoch(self):
        """Train one epoch; the seconds of it."""
        began = now(self.images.device)
        images = augmented(self.images, self.epochs)
        order = torch.randperm(self.count, device=images.device)
        for start in range(0, self.count - self.batch + 1, self.batch):
            rows = order[start : start + self.batch]
            logits = self.model(images[rows])
            loss = F.cross_entropy(
                logits.float(), self.labels[rows], label_smoothing=0.2, reduction="sum"
            )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.done += 1
            if self.epochs >= AVERAGED_FROM and self.done % EVERY == 0:
                self.look_ahead(0.95**EVERY * min(self.done / self.steps, 1) ** 3)
        self.look_ahead(1.0)
        self.epochs += 1
        return now(self.images.device) - began

    @torch.no_grad()
    def look_ahead(self, keep):
        """The slow weights take in 1 - `keep` of the present ones, which then equal them."""
        values = self.model.state_dict()
        if self.slow is None:
            if self.epochs >= AVERAGED_FROM:
                self.slow = {name: value.clone() for name, value in values.items()}
            return
        for name, value in values.items():
            if value.is_floating_point():
                self.slow[name].lerp_(value, 1 - keep)
                value.copy_(self.slow[name])


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def compared(device, dry):
    """Milliseconds a step of each loop, in turn, and speednet's by airbench94's."""
    batch, batches = (32, 2) if dry else (BATCH, BATCHES)
    widths = (4, 16, 16) if dry else (64, 256, 256)
    theirs = Airbench(device, images=batch * batches, batch=batch, widths=widths)
    ours = speednet(device, dry, train=batch * batches, epochs=EPOCHS)
    loops = {"airbench94": theirs.epoch, "speednet": partial(seconds_of_training, ours)}
    times = {name: [] for name in loops}
    for number in range(1 if dry else WARM_UP + ROUNDS * 5):
        for name, train in loops.items():
            seconds = train()
            if dry or number >= WARM_UP:
                times[name].append(seconds)
    for name, seconds in times.items():
        median = statistics.median(seconds) / batches
        yield (
            f"{name}: ms a step; images/s",
            f"{1e3 * median:.2f}; {batch / median:,.0f}",
        )
    ratios = [
        one / other
        for one, other in zip(times["speednet"], times["airbench94"], strict=True)
    ]
    spread = " / ".join(f"{f(ratios):.2f}" for f in (min, statistics.median, max))
    yield (
        f"speednet by airbench94, min / median / max of {len(ratios)} epochs in turn",
        spread,
    )


def seconds_of_training(made):
    """Of the next epoch, without a validation."""
    began = now(made.device)
    made.train_epoch()
    made.epoch += 1
    return now(made.device) - began
