"""What one would write in plain torch: fastai's recipe, AutoGluon's, and a run from scratch.

Each is written anew from what its documentation and its defaults say, for the same network and the
same photos. `search` tries configs of a peer at random within a budget of CPU seconds and keeps the
best by validation, as a user with a loop would.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.finetune.network import (
    PX,
    Photos,
    accuracy,
    batches,
    cropped,
    logits_of,
    network,
    one_cycle,
)
from benchmarks.finetune.photos import read_folder

HELD_OUT = 0.15  # of each class, for validation
SCRATCH_STEPS = 800

Config = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a peer trains on, and from; `rng` draws its batches and its augmentation."""

    train: Photos
    val: Photos
    num_classes: int
    weights: Path
    rng: torch.Generator

    def steps(self, size: int) -> int:
        """The steps of an epoch, with batches of `size`."""
        return max(1, len(self.train) // size)


# --- fastai: Learner.fine_tune --------------------------------------------------------------------


class ConcatPool(nn.Module):
    """The maxima and the means over all pixels."""

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return torch.cat([x_NCHW.amax((2, 3)), x_NCHW.mean((2, 3))], 1)


def fastai(task: Task, config: Config) -> nn.Module:
    """The head for an epoch, then all layers at rates from lr / 100 to lr; vision_learner's head.

    While the body is frozen, its norm layers train, as there.
    """
    old = network(task.num_classes, task.weights)
    channels = old.head.in_features
    head = nn.Sequential(
        *(ConcatPool(), nn.BatchNorm1d(2 * channels), nn.Dropout(0.25)),
        *(nn.Linear(2 * channels, 512, bias=False), nn.ReLU(), nn.BatchNorm1d(512)),
        *(nn.Dropout(0.5), nn.Linear(512, task.num_classes, bias=False)),
    )
    model = nn.Sequential(nn.Sequential(*old[:3], *old.blocks[:2]), old.blocks[2:], head)
    norms = {
        p for m in model[:2].modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()
    }

    def augment(x_NCHW: Tensor, rng: torch.Generator) -> Tensor:
        scale = (config["min_scale"], 1.0)
        return cropped(x_NCHW, rng, scale=scale, degrees=10, light=0.2)

    def fit(epochs: int, rates: list[float], rise: float, div: float) -> None:
        groups = [{"params": [p for p in part.parameters() if p.requires_grad]} for part in model]
        how = {"betas": (0.95, 0.99), "eps": 1e-5, "weight_decay": 1e-2}
        optimizer = torch.optim.AdamW(groups, **how)
        steps = 1 + epochs * task.steps(config["batch"])
        schedule = one_cycle(optimizer, rates, steps, rise, div=div, momenta=(0.85, 0.95))
        for _ in range(epochs):
            deque(_epoch(model, task, config["batch"], augment, optimizer, schedule), maxlen=0)

    lr = config["lr"]
    for parameter in model[:2].parameters():
        parameter.requires_grad_(parameter in norms)
    fit(1, [lr / 10, lr / 10, lr], 0.99, 25)
    model.requires_grad_(True)
    fit(config["epochs"], [lr / 200, lr / 20, lr / 2], 0.3, 5)
    return model


# --- AutoGluon: MultiModalPredictor ---------------------------------------------------------------


def autogluon(task: Task, config: Config) -> nn.Module:
    """Layer-wise rates, warm-up and cosine; a greedy soup of the best three of two an epoch."""
    model = network(task.num_classes, task.weights)
    layers = [nn.Sequential(model.stem, model.norm), *model.blocks, model.head]
    rates = [config["lr"] * 0.9**depth for depth in reversed(range(len(layers)))]
    groups = [{"params": list(layer.parameters())} for layer in layers]
    optimizer = torch.optim.AdamW(groups, lr=config["lr"], weight_decay=1e-3)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    per_epoch = task.steps(config["batch"])
    steps = config["epochs"] * per_epoch
    warm = max(1, steps // 10)

    def share(step: int) -> float:
        done = (step - warm) / max(1, steps - warm)
        return (step + 1) / (warm + 1) if step < warm else 0.5 + 0.5 * float(np.cos(np.pi * done))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    kept: list[tuple[float, dict[str, Tensor]]] = []
    stale = 0
    for _ in range(config["epochs"]):
        for step in _epoch(model, task, config["batch"], trivial, optimizer, schedule, clip=1.0):
            if step not in (per_epoch // 2, per_epoch):
                continue
            value = accuracy(model, task.val)
            stale = 0 if not kept or value > kept[0][0] else stale + 1
            kept = [(value, copy.deepcopy(model.state_dict())), *kept]
            kept = sorted(kept, key=lambda entry: entry[0], reverse=True)[:3]
            model.train()
        if stale >= 10:
            break
    return greedy_soup(model, [state for _, state in kept], task.val)


def greedy_soup(model: nn.Module, states: list[dict[str, Tensor]], val: Photos) -> nn.Module:
    """The mean of the weights, best first, that lowers no validation accuracy (Wortsman 2022)."""
    chosen: list[dict[str, Tensor]] = []
    best = -1.0
    for state in states:
        model.load_state_dict(mean_of([*chosen, state]))
        value = accuracy(model, val)
        if value >= best:
            chosen, best = [*chosen, state], value
    model.load_state_dict(mean_of(chosen))
    return model


def mean_of(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor."""
    return {
        name: torch.stack([s[name].float() for s in states]).mean(0).to(states[0][name].dtype)
        for name in states[0]
    }


def trivial(x_NCHW: Tensor, rng: torch.Generator) -> Tensor:
    """A random crop, mirrored or not, and one change of random strength (Müller & Hutter 2021).

    The change turns, shears, shifts, or sets brightness, contrast, colour, sharpness, the number of
    grey levels, or inverts what is bright; images are normalised, so 0 is the mean.
    """
    x_NCHW = cropped(x_NCHW, rng, scale=(0.5, 1.0)).clone()
    n = len(x_NCHW)
    kinds_N = torch.randint(10, (n,), generator=rng).tolist()
    strengths_N = (2 * torch.rand(n, generator=rng) - 1).tolist()
    theta_N23 = torch.eye(2, 3).repeat(n, 1, 1)
    for i, (kind, s) in enumerate(zip(kinds_N, strengths_N, strict=True)):
        x_CHW = x_NCHW[i]
        match kind:
            case 0:
                c, d = np.cos(s / 2), np.sin(s / 2)
                theta_N23[i, :, :2] = torch.tensor([[c, -d], [d, c]])
            case 1 | 2:
                theta_N23[i, kind - 1, 2 - kind] = 0.3 * s
            case 3:
                theta_N23[i, int(s > 0), 2] = 0.6 * s
            case 4:
                x_NCHW[i] = x_CHW + s
            case 5:
                x_NCHW[i] = x_CHW.mean() + (x_CHW - x_CHW.mean()) * (1 + 0.9 * s)
            case 6:
                grey = x_CHW.mean(0, keepdim=True)
                x_NCHW[i] = grey + (x_CHW - grey) * (1 + 0.9 * s)
            case 7:
                blurred = F.avg_pool2d(x_CHW[None], 3, 1, 1)[0]
                x_NCHW[i] = blurred + (x_CHW - blurred) * (1 + 0.9 * s)
            case 8:
                x_NCHW[i] = (x_CHW * (2 + 6 * abs(s))).round() / (2 + 6 * abs(s))
            case _:
                x_NCHW[i] = torch.where(x_CHW > 2 * abs(s), 4 * abs(s) - x_CHW, x_CHW)
    grid = F.affine_grid(theta_N23, list(x_NCHW.shape), align_corners=False)
    return F.grid_sample(x_NCHW, grid, align_corners=False)


# --- from scratch ---------------------------------------------------------------------------------


def scratch(task: Task, config: Config) -> nn.Module:
    """One cycle of 800 steps of 32 images, from new weights."""
    model = network(task.num_classes)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=config["weight_decay"])
    schedule = one_cycle(optimizer, [config["lr"]], SCRATCH_STEPS, 0.3)
    while True:
        for _ in _epoch(model, task, 32, cropped, optimizer, schedule, smoothing=0.1):
            if schedule.last_epoch == SCRATCH_STEPS - 1:
                return model


def _epoch(
    model: nn.Module,
    task: Task,
    size: int,
    augment: Callable[[Tensor, torch.Generator], Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    *,
    smoothing: float = 0,
    clip: float | None = None,
) -> Iterator[int]:
    """Train for an epoch; yields the number of its steps after each."""
    model.train()
    for step, (x_NCHW, labels_N) in enumerate(batches(task.train, size, task.rng, augment), 1):
        optimizer.zero_grad()
        F.cross_entropy(model(x_NCHW), labels_N, label_smoothing=smoothing).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        yield step


# --- the search -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peer:
    """A recipe, the config that it is known by, and how others are drawn, if it is searched."""

    train: Callable[[Task, Config], nn.Module]
    first: Config
    draw: Callable[[np.random.Generator], Config] | None = None


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


PEERS = {
    "fastai": Peer(
        fastai,
        {"lr": 2e-3, "epochs": 10, "batch": 32, "min_scale": 0.83},
        lambda rng: {
            "lr": _log(rng, 1e-3, 3e-2),
            "epochs": int(rng.choice([5, 10, 20, 40])),
            "batch": int(rng.choice([16, 32, 64])),
            "min_scale": float(rng.choice([0.35, 0.83])),
        },
    ),
    "autogluon": Peer(
        autogluon,
        {"lr": 1e-4, "epochs": 20, "batch": 32},
        lambda rng: {
            "lr": _log(rng, 1e-4, 1e-2),
            "epochs": int(rng.choice([10, 20, 40])),
            "batch": int(rng.choice([16, 32, 64])),
        },
    ),
    "scratch": Peer(
        scratch,
        {"lr": 5e-3, "weight_decay": 0.05},
    ),
}


def stratified(labels_N: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which images are held out: `share` of each class, at least one of two or more."""
    held_N = np.zeros(len(labels_N), bool)
    rng = np.random.default_rng(seed)
    for label in np.unique(labels_N):
        rows = rng.permutation(np.flatnonzero(labels_N == label))
        count = max(1, round(share * len(rows))) if len(rows) > 1 else 0
        held_N[rows[:count]] = True
    return held_N


def search(
    name: str, folder: Path, weights: Path, *, budget_cpu_s: float, seed: int
) -> tuple[nn.Module, Photos, dict[str, Any]]:
    """The best model of a random search, photos that are normalised as it needs, and a summary.

    A trial starts if the longest one so far would fit the rest of the budget; the first always
    does, and is the only trial of a peer that draws no others. The best has the highest validation
    accuracy, then the lowest validation loss.
    """
    began = time.process_time()
    pixels, labels_N = read_folder(folder, PX)
    held_N = stratified(labels_N, HELD_OUT, seed)
    train = Photos(pixels[~held_N], labels_N[~held_N])
    val = Photos(pixels[held_N], labels_N[held_N], like=train)
    draws, peer = np.random.default_rng(seed), PEERS[name]
    best: tuple[tuple[float, float], nn.Module, Config] | None = None
    trials, longest = 0, 0.0
    while trials == 0 or time.process_time() - began + longest <= budget_cpu_s:
        if trials and peer.draw is None:
            break
        config = peer.draw(draws) if peer.draw and trials else peer.first
        torch.manual_seed(seed + trials)
        rng = torch.Generator().manual_seed(seed + trials)
        started = time.process_time()
        task = Task(train, val, len(np.unique(labels_N)), weights, rng)
        model = peer.train(task, config)
        logits_NK = logits_of(model, val)
        right = (logits_NK.argmax(1) == val.labels_N).float().mean().item()
        score = right, -F.cross_entropy(logits_NK, val.labels_N).item()
        if best is None or score > best[0]:
            best = score, model, config
        trials, longest = trials + 1, max(longest, time.process_time() - started)
    score, model, config = best
    cpu_s = time.process_time() - began
    return model, train, {"trials": trials, "config": config, "val": score[0], "cpu_s": cpu_s}
