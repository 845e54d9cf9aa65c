"""Tasks with learning curves, of five kinds, on which a search under early stopping is simulated.

`lcbench`: the surrogate of `benchmarks.searchers.lcbench`. `tables`: the four tables of
`benchmarks.searchers.tables`. `adam`: networks of one hidden layer that are trained on the spot,
8 hyperparameters of Adam over wide ranges, so that many diverge and curves are noisy.
`conditional`: the same networks, where the optimiser decides which hyperparameters there are.
`categorical`: made curves of 16 to 34 choices with small differences, which cross.
"""

# N examples, B of a batch, C classes, H hidden units

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.searchers import lcbench
from benchmarks.searchers.tables import SPACES, Curves

WORST = 1e3  # the loss of a network that has diverged
ADAM = {
    "lr": "loguniform(1e-5, 3)",
    "one_minus_beta1": "loguniform(1e-3, 0.9)",
    "one_minus_beta2": "loguniform(1e-5, 0.9)",
    "eps": "loguniform(1e-9, 10)",
    "l1": "loguniform(1e-7, 1)",
    "l2": "loguniform(1e-7, 1)",
    "linear_decay": "loguniform(1e-6, 1e-2)",
    "exponential_decay": "loguniform(1e-6, 1e-2)",
}
CONDITIONAL = {
    "optimizer": "choice([{'kind': 'sgd', 'lr': loguniform(1e-4, 3), 'momentum': uniform(0, 0.99)},"
    " {'kind': 'adam', 'lr': loguniform(1e-5, 0.3), 'beta2': choice([0.9, 0.99, 0.999])}])",
    "activation": "choice(['relu', 'tanh'])",
    "hidden": "lograndint(4, 65)",
    "batch_size": "choice([16, 32, 64])",
    "l2": "loguniform(1e-6, 0.1)",
    "dropout": "uniform(0, 0.7)",
    "schedule": "choice(['none', 'cosine'])",
}
KINDS = ("lcbench", "tables", "adam", "conditional", "categorical")
TABLES = ("digits", "photographs", "breast_cancer", "wine")
TUNING = {"adam": ("breast_cancer", "wine", "made1"), "conditional": ("wine", "made0")}
CLAIMS = {
    "adam": ("made0", "made2", "made3", "made4", "made5", "made6"),
    "conditional": ("breast_cancer", "made1", "made2", "made3", "made4", "made5"),
}


@dataclass(frozen=True)
class CurveTask:
    """`curve(config)`: the losses after each of `epochs` epochs; the same for the same config."""

    name: str
    space: dict[str, str]
    curve: Callable[[dict], np.ndarray] = field(repr=False)
    epochs: int


@cache
def tasks(
    kind: str, folder: Path | None = None, split: str = "tuning"
) -> tuple[CurveTask, ...]:
    """The tasks of a kind. folder: that of LCBench. split: tuning, or claims.

    There are no other tables: those of claims are those of tuning.
    """
    is_tuning = split == "tuning"
    if kind == "lcbench":
        names = lcbench.SPLITS[split][:: 3 if is_tuning else 1]
        return tuple(_lcbench(folder, name) for name in names)
    if kind == "tables":
        return tuple(_table(name) for name in TABLES)
    if kind == "categorical":
        tuning = ((0, 20, 0.5), (2, 34, 0.9), (3, 24, 0.6), (5, 30, 0.4))
        return tuple(
            _categorical(*each) for each in (tuning if is_tuning else _choices())
        )
    make = {"adam": _adam, "conditional": _conditional}[kind]
    return tuple(make(name) for name in (TUNING if is_tuning else CLAIMS)[kind])


def _choices():
    """Eight made tasks for claims: number, choices, correlation of the first epoch with the end."""
    rng = np.random.default_rng(0)
    return [
        (n, int(rng.integers(16, 35)), float(rng.uniform(0.4, 0.9)))
        for n in range(10, 18)
    ]


def _lcbench(folder, name):
    def curve(config):
        return lcbench.curve_of(folder, name, config)

    return CurveTask(f"lcbench {name}", lcbench.SPACE, curve, lcbench.EPOCHS)


def _table(name):
    curves = Curves(name)

    def curve(config):
        return curves(curves.encoding.encode(config))

    return CurveTask(f"table {name}", SPACES[name], curve, 10)


def _adam(name):
    def curve(config):
        rng = np.random.default_rng(_key(name, config))
        betas = 1 - config["one_minus_beta1"], 1 - config["one_minus_beta2"]
        return trained(name, {**config, "betas": betas}, 30, rng)

    return CurveTask(f"adam {name}", ADAM, curve, 30)


def _conditional(name):
    def curve(config):
        rng = np.random.default_rng(_key(name, config))
        optimizer = config["optimizer"]
        betas = 0.9, optimizer.get("beta2", 0.999)
        return trained(name, {**config, **optimizer, "betas": betas}, 27, rng)

    return CurveTask(f"conditional {name}", CONDITIONAL, curve, 27)


def _categorical(number, columns, early):
    """early: the correlation of the first epoch with the end."""
    rng = np.random.default_rng(100 + number)
    epochs = 60
    sizes = rng.integers(2, 8, columns)
    main = [rng.normal(0, 1, size) * rng.gamma(1, 1) for size in sizes]
    pairs = [
        (a, b, rng.normal(0, 0.8, (sizes[a], sizes[b])))
        for a, b in rng.integers(0, columns, (columns, 2))
        if a != b
    ]
    slow = [rng.normal(0, 1, size) for size in sizes]
    spread = np.sqrt(sum(m.var() for m in main) + sum(p.var() for *_, p in pairs))
    slow_spread = np.sqrt(sum(each.var() for each in slow))
    space = {
        f"c{d:02d}": f"choice({list(range(int(size)))})" for d, size in enumerate(sizes)
    }
    epoch_E = np.arange(1, epochs + 1)

    def curve(config):
        values = [int(config[key]) for key in space]
        noise = np.random.default_rng(_key(str(number), config))
        total = sum(m[i] for m, i in zip(main, values, strict=True))
        total += sum(p[values[a], values[b]] for a, b, p in pairs)
        quality = total / spread + 0.15 * noise.normal()
        slowness = sum(s[i] for s, i in zip(slow, values, strict=True)) / slow_spread
        end = 0.055 + 0.012 * np.logaddexp(0, 0.3 + 1.3 * quality)
        first = early * quality + np.sqrt(1 - early**2) * slowness
        start = 0.55 + 0.06 * first + 0.01 * noise.normal()
        power = max(0.9 + 0.35 * slowness, 0.2)
        left_E = (epoch_E**-power - epochs**-power) / (1 - epochs**-power)
        wobble_E = 0.002 * noise.normal(size=epochs) * (left_E + 0.15)
        return np.clip(end + (start - end) * left_E + wobble_E, 1e-3, 1)

    return CurveTask(f"categorical {number}", space, curve, epochs)


def _key(name, config):
    return zlib.crc32((name + repr(sorted(config.items(), key=str))).encode())


@cache
def _examples(name):
    """(training images, their classes, those of validation, theirs, the number of classes)."""
    from sklearn import datasets

    if name.startswith("made"):
        number = int(name.removeprefix("made"))
        x, y = datasets.make_classification(
            600,
            10 + 5 * number,
            n_informative=6 + number,
            n_classes=3 + number,
            class_sep=0.9,
            flip_y=0.03,
            random_state=50 + number,
        )
    else:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    x = np.float32(x[order])
    y = y[order]
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    first = int(0.65 * len(y))
    return x[:first], y[:first], x[first:], y[first:], int(y.max()) + 1


def trained(name, config, epochs, rng):
    """The validation log loss after each epoch of a network of one hidden layer."""
    x_train, y_train, x_val, y_val, classes = _examples(name)
    hidden = int(config.get("hidden", 24))
    size = int(config.get("batch_size", 32))
    shapes = ((x_train.shape[1], hidden), (hidden,), (hidden, classes), (classes,))
    scales = np.sqrt(2 / x_train.shape[1]), 0, np.sqrt(1 / hidden), 0
    weights = [
        np.float32(rng.normal(0, s, shape))
        for s, shape in zip(scales, shapes, strict=True)
    ]
    means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
    is_relu = config.get("activation", "relu") == "relu"
    steps = 0
    losses = []
    total = epochs * max(len(y_train) // size, 1)

    def forward(x, dropout=0.0):
        before = x @ weights[0] + weights[1]
        hidden_BH = np.maximum(before, 0) if is_relu else np.tanh(before)
        slope_BH = np.float32(before > 0) if is_relu else 1 - hidden_BH**2
        kept_BH = (
            np.float32(rng.random(hidden_BH.shape) >= dropout) / (1 - dropout)
            if dropout
            else 1
        )
        hidden_BH = hidden_BH * kept_BH
        score_BC = hidden_BH @ weights[2] + weights[3]
        score_BC -= score_BC.max(axis=1, keepdims=True)
        log_BC = score_BC - np.log(np.exp(score_BC).sum(axis=1, keepdims=True))
        return hidden_BH, slope_BH * kept_BH, log_BC

    def rate():
        if config.get("schedule") == "cosine":
            return config["lr"] * 0.5 * (1 + np.cos(np.pi * steps / total))
        linear = max(1 - config.get("linear_decay", 0.0) * steps, 0)
        return (
            config["lr"]
            * linear
            * np.exp(-config.get("exponential_decay", 0.0) * steps)
        )

    for _ in range(epochs):
        order = rng.permutation(len(y_train))
        for first in range(0, max(len(y_train) - size + 1, 1), size):
            x = x_train[order[first : first + size]]
            y = y_train[order[first : first + size]]
            hidden_BH, slope_BH, log_BC = forward(x, config.get("dropout", 0.0))
            error_BC = np.exp(log_BC)
            error_BC[np.arange(len(y)), y] -= 1
            error_BC /= len(y)
            back_BH = error_BC @ weights[2].T * slope_BH
            gradients = [
                x.T @ back_BH,
                back_BH.sum(0),
                hidden_BH.T @ error_BC,
                error_BC.sum(0),
            ]
            steps += 1
            for k, gradient in enumerate(gradients):
                penalty = config["l2"] * weights[k] + config.get("l1", 0.0) * np.sign(
                    weights[k]
                )
                gradient = gradient + penalty
                if config.get("kind") == "sgd":
                    means[k] = config["momentum"] * means[k] + gradient
                    weights[k] = np.float32(weights[k] - rate() * means[k])
                    continue
                beta1, beta2 = config["betas"]
                means[k] = beta1 * means[k] + (1 - beta1) * gradient
                squares[k] = beta2 * squares[k] + (1 - beta2) * gradient**2
                root = np.sqrt(squares[k] / (1 - beta2**steps)) + config.get(
                    "eps", 1e-8
                )
                move = rate() * means[k] / (1 - beta1**steps) / root
                weights[k] = np.float32(weights[k] - move)
        loss = float(-forward(x_val)[2][np.arange(len(y_val)), y_val].mean())
        if not loss < WORST:
            return np.array(losses + [WORST] * (epochs - len(losses)))
        losses.append(loss)
    return np.array(losses)
