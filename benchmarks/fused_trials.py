"""An experiment: does it pay to train several trials of one shape as one, in one process?

    python -m benchmarks.fused_trials              about 3 minutes on a CPU
    python -m benchmarks.fused_trials --quick      shows that it works, no more

Networks of one shape, each with its own weights, learning rate and batches, take steps of SGD with
momentum: one network after the other, and all of them at once by `torch.func.stack_module_state`
and `vmap`. Both ways must end with the same weights. Prints milliseconds of a step of all networks
(on a CPU those of one thread's CPU time) and how many times as fast the fused ones are. Networks
have GroupNorm: BatchNorm changes its statistics in place, which `vmap` refuses. Nothing of tuner
trains so: trials that are fused start, stop, fail and run out of memory together.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from copy import deepcopy
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from benchmarks.figures import options
from tuner.vision.models import cnn

MOMENTUM = 0.9
STEPS = 3  # of which a time is the mean
AS_EQUAL = 1e-3  # largest difference of a weight after the warm-up: float32, other orders of sums
COUNTS = (1, 2, 4, 8)


def perceptron(size):
    return nn.Sequential(nn.Flatten(), nn.Linear(size**2, 64), nn.ReLU(), nn.Linear(64, 10))


BATCH = 64
# Makes a network; channels and px of its images
SHAPES = {
    "perceptron of 64 units, 8x8": (partial(perceptron, 8), 1, 8),
    "cnn of width 4, 8x8": (partial(cnn.build, in_channels=1, width=4), 1, 8),
    "cnn of width 16, 8x8": (partial(cnn.build, in_channels=1, width=16), 1, 8),
}


def made(build):
    if build.func is perceptron:
        return build()
    return build(num_classes=10, norm="group")


class Apart:
    """Steps of each network after the other."""

    def __init__(self, networks, rates):
        self.networks = networks
        self.optimizers = [
            torch.optim.SGD(network.parameters(), lr=rate, momentum=MOMENTUM, fused=True)
            for network, rate in zip(networks, rates.tolist(), strict=True)
        ]

    def step(self, x_TNCHW, labels_TN):
        for network, optimizer, x, labels in zip(
            self.networks, self.optimizers, x_TNCHW, labels_TN, strict=True
        ):
            optimizer.zero_grad()
            F.cross_entropy(network(x), labels).backward()
            optimizer.step()

    def weights(self):
        stacked, _ = stack_module_state(self.networks)
        return {name: parameter.detach() for name, parameter in stacked.items()}


class Fused:
    """Steps of all networks at once; a trial is the first dimension of every tensor."""

    def __init__(self, networks, rates):
        self.parameters, buffers = stack_module_state(networks)
        self.parameters = {name: p.detach() for name, p in self.parameters.items()}
        self.momenta = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.rates = rates
        shell = deepcopy(networks[0]).to("meta")

        def loss(parameters, buffers, x, labels):
            return F.cross_entropy(functional_call(shell, (parameters, buffers), (x,)), labels)

        self.gradients = vmap(grad(loss))
        self.buffers = buffers

    @torch.no_grad()
    def step(self, x_TNCHW, labels_TN):
        gradients = self.gradients(self.parameters, self.buffers, x_TNCHW, labels_TN)
        for name, parameter in self.parameters.items():
            momentum = self.momenta[name].mul_(MOMENTUM).add_(gradients[name])
            parameter.sub_(momentum * self.rates.view(-1, *[1] * (parameter.ndim - 1)))

    def weights(self):
        return self.parameters


def measured(shape, count, *, device, rounds, batch):
    """(ms of a step: one after the other, ms fused), medians of rounds in turn."""
    build, channels, size = SHAPES[shape]
    torch.manual_seed(0)
    networks = [made(build).to(device) for _ in range(count)]
    rates = torch.logspace(-3, -2, count, device=device)
    x_TNCHW = torch.randn(count, batch, channels, size, size, device=device)
    labels_TN = torch.randint(10, (count, batch), device=device)
    ways = Fused(deepcopy(networks), rates), Apart(networks, rates)
    for way in ways:  # warm-up
        for _ in range(3):
            way.step(x_TNCHW, labels_TN)
    fused, apart = (way.weights() for way in ways)
    largest = max(float((fused[name] - apart[name]).abs().max()) for name in apart)
    if not largest <= AS_EQUAL:
        raise SystemExit(f"{shape}: fused weights differ by {largest}")
    times = [[], []]
    for _ in range(rounds):
        for way, found in zip(ways, times, strict=True):
            began = now(device)
            for _ in range(STEPS):
                way.step(x_TNCHW, labels_TN)
            found.append(1e3 * (now(device) - began) / STEPS)
    fused_ms, apart_ms = map(statistics.median, times)
    return apart_ms, fused_ms


def now(device):
    if device == "cpu":
        return time.process_time()  # of one thread, whatever else the machine does
    torch.cuda.synchronize()
    return time.perf_counter()


def rows(device, *, quick, rounds):
    """(what, result) for every shape and count."""
    counts, rounds, batch = (COUNTS[1:2], 1, 4) if quick else (COUNTS, rounds, BATCH)
    for shape in SHAPES:
        for count in counts:
            apart_ms, fused_ms = measured(shape, count, device=device, rounds=rounds, batch=batch)
            result = f"{apart_ms:.2f}; {fused_ms:.2f}; {apart_ms / fused_ms:.2f}"
            yield f"{shape}, {count} trials", result


def main():
    given = options(__doc__, rounds=7)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    print(f"{device}, torch {torch.__version__}, {platform.platform()}; 1 thread on a CPU")
    print(f"median of {given.rounds} rounds of {STEPS} steps in turn")
    print("ms of a step: one after the other; fused; how many times as fast")
    for what, result in rows(device, quick=given.quick, rounds=given.rounds):
        print(f"  {what}: {result}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
