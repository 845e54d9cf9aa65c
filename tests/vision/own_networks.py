"""Networks as users write them, and a torchvision that can be imported beside the CPU's torch."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Small(nn.Module):
    """Flattens with `view`, as many do, has lazy layers, and draws in training."""

    def __init__(self, in_channels, num_classes, width=4, dropout=0.3):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(4)
        self.drop = nn.Dropout(dropout)
        self.head = nn.LazyLinear(num_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv(x))))
        return self.head(self.drop(x.view(x.size(0), -1)))


class Drawing(Small):
    """Draws from every generator that there is, and in an evaluation, too."""

    def forward(self, x):
        noise = torch.rand(()) + random.random() + np.random.rand()
        return super().forward(x * (1 + 0.1 * noise))


class Plain(nn.Module):
    """A norm of each image alone, so that it gives the same on any number of ranks."""

    def __init__(self, in_channels, num_classes, width=4):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Unused(Plain):
    """A layer that nothing uses, one that is used now and then, and a buffer of its own."""

    def __init__(self, in_channels, num_classes):
        super().__init__(in_channels, num_classes)
        self.aside = nn.Linear(3, 3)
        self.sometimes = nn.Parameter(torch.ones(num_classes))
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mask", torch.ones(2, dtype=torch.bool))

    def forward(self, x):
        logits = super().forward(x)
        if self.training:
            self.seen = self.seen + 1  # another tensor in its place
        return logits * self.sometimes if self.seen % 2 else logits


class Scaled(Plain):
    """The logits are not what the last layer gives."""

    def forward(self, x):
        return 2 * super().forward(x)


class Shared(Plain):
    """The last layer is called twice."""

    def forward(self, x):
        return (super().forward(x) + super().forward(x.flip(3))) / 2


class Experts(Plain):
    """Each image goes through one of three layers, by its brightness."""

    def __init__(self, in_channels, num_classes):
        super().__init__(in_channels, num_classes)
        self.experts = nn.ModuleList(
            nn.Linear(num_classes, num_classes) for _ in range(3)
        )

    def forward(self, x):
        logits = super().forward(x)
        brightness = x.mean((1, 2, 3))
        chosen = (brightness > -0.7).long() + (brightness > 0).long()
        for number, expert in enumerate(self.experts):
            if len(rows := (chosen == number).nonzero().flatten()):
                logits = logits.index_add(0, rows, expert(logits[rows]))
        return logits


class Listed(Plain):
    """Layers in a plain list, which are no parameters of it."""

    def __init__(self, in_channels, num_classes):
        super().__init__(in_channels, num_classes)
        self.more = [nn.Linear(num_classes, num_classes) for _ in range(2)]

    def forward(self, x):
        x = super().forward(x)
        for layer in self.more:
            x = layer(x)
        return x


class Detached(Plain):
    """Its first layers get no gradient."""

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)).detach())


class Sharing(Plain):
    """A layer that it has twice, once in a part of its own."""

    def __init__(self, in_channels, num_classes):
        super().__init__(in_channels, num_classes)
        self.twice = nn.Linear(num_classes, num_classes)
        self.again = nn.Sequential(nn.ReLU(), self.twice)

    def forward(self, x):
        return self.again(self.twice(super().forward(x)))


class Probable(Plain):
    """Probabilities in an evaluation alone: its accuracies are right, and its losses are not."""

    def forward(self, x):
        logits = super().forward(x)
        return logits if self.training else logits.softmax(1)


class Flat(nn.Module):
    """BatchNorm over flattened images: it cannot train on one."""

    def __init__(self, in_channels, image_size, num_classes):
        super().__init__()
        size = in_channels * image_size**2
        self.norm = nn.BatchNorm1d(size)
        self.head = nn.Linear(size, num_classes)

    def forward(self, x):
        return self.head(self.norm(x.flatten(1)))


def wide(in_channels, num_classes):
    """Logits of more classes than there are."""
    return Plain(in_channels, num_classes + 1)


def torn(num_classes):
    raise RuntimeError(f"no weights for {num_classes} classes")


def no_network(num_classes):
    return lambda x: x


def any_arguments(num_classes, **kwargs):
    return Plain(3, num_classes, **kwargs)


def positional(num_classes, /):
    return Plain(3, num_classes)


def needing(num_classes, depth):
    return Plain(3, num_classes, depth)


def own(name):
    return f"{__name__}:{name}"


_operators = None  # they last as long as this does


def import_torchvision():
    """torchvision; skips where it is not installed. Its wheel is built for CUDA's torch alone."""
    global _operators
    if _operators is None and not torch.version.cuda:
        _operators = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            _operators.define(f"{operator}(Tensor x) -> Tensor")
    return pytest.importorskip("torchvision")
