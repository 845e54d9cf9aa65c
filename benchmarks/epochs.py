"""What an epoch costs beside its training: the round trip through Ray, and the checkpoint.

    python -m benchmarks.epochs                       this checkout
    python -m benchmarks.epochs --other CHECKOUT      in turn with another one
    python -m benchmarks.epochs --mib 0 8 90 --epoch-s 0 0.2 --epochs 100 --rounds 3

Each figure is a whole search of one trial, in a process of its own. Its Learner sleeps, as the host
does that waits for a GPU, and then adds 1 to a state of so many MiB. Its value gets better in every
second epoch. What an epoch costs is the time between two reports of the journal less the training,
as median, mean and 90th percentile over the epochs. The last column is the CPU time that the
trial's process takes for it, on all of its threads: other work on the machine changes that little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent.parent
TENSORS = 60  # as many as a small network and its optimizer have
LEARNER = f"""
import time

import torch


class Sleeps:
    metrics = ("loss",)

    def __init__(self, config, constants, *, device, rank, world_size):
        each = int(constants["mib"] * 2**20 / 4 / {TENSORS})
        self.weights = [torch.zeros(each) for _ in range({TENSORS})]
        self.sleep_s, self.epoch, self.own_s = constants["sleep_s"], 0, 0.0

    def step(self):
        beside_s = time.process_time() - self.own_s
        began, cpu = time.perf_counter(), time.thread_time()
        time.sleep(self.sleep_s)
        for weight in self.weights:
            weight += 1
        self.epoch += 1
        self.own_s += time.thread_time() - cpu
        return {{
            "loss": 1 / (self.epoch + self.epoch % 2 * -2 + 3),
            "trained_s": time.perf_counter() - began,
            "beside_s": beside_s,  # CPU time until here that was not spent in steps
        }}

    def state_dict(self):
        return {{"epoch": self.epoch, "weights": self.weights}}

    def load_state_dict(self, state):
        self.epoch, self.weights = state["epoch"], state["weights"]
"""


class Cost(NamedTuple):
    """Seconds that an epoch took beside its training, and CPU seconds of the trial's process."""

    wall: float
    cpu: float


def searched(checkout: Path, mib: float, epoch_s: float, epochs: int) -> list[Cost]:
    """What each epoch but the first cost."""
    with tempfile.TemporaryDirectory(prefix="epochs-") as folder:
        Path(folder, "sleeps.py").write_text(LEARNER)
        spec = {
            "trainable": "sleeps:Sleeps",
            "training": {"mib": mib, "sleep_s": epoch_s},
            "search": {"strategy": "random", "space": {"lr": "uniform(0, 1)"}},
            "objective": {"metric": "loss", "mode": "min"},
            "scheduler": {"max_t": epochs, "grace_period": max(1, epochs // 16)},
            "num_samples": 1,
        }
        Path(folder, "spec.json").write_text(json.dumps(spec))
        subprocess.run(
            [sys.executable, "-m", "tuner", "run", "spec.json", "--name=x", f"--storage={folder}"],
            check=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{folder}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        lines = Path(folder, "x", "journal.jsonl").read_text().splitlines()
    results = [e for e in map(json.loads, lines) if e["event"] == "result"]
    assert len(results) == epochs
    return [_between(before, after) for before, after in pairwise(results)]


def _between(before: dict[str, Any], after: dict[str, Any]) -> Cost:
    first, then = before["metrics"], after["metrics"]
    wall = after["time"] - before["time"] - then["trained_s"]
    return Cost(wall, then["beside_s"] - first["beside_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="a checkout of another revision")
    parser.add_argument("--mib", type=float, nargs="+", default=[0, 24, 135], help="of state")
    parser.add_argument("--epoch-s", type=float, nargs="+", default=[0, 0.2])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    checkouts = [HERE, *([options.other.resolve()] if options.other else [])]
    print(f"Python {platform.python_version()}, Ray {version('ray')}, {os.cpu_count()} cores")
    print("   MiB  epoch s             n   median ms   mean ms   p90 ms   of an epoch   CPU ms")
    for mib in options.mib:
        for epoch_s in options.epoch_s:
            costs: dict[Path, list[Cost]] = {checkout: [] for checkout in checkouts}
            for number in range(options.rounds * len(checkouts)):
                checkout = checkouts[number % len(checkouts)]
                costs[checkout] += searched(checkout, mib, epoch_s, options.epochs)
            for checkout in checkouts:
                show(mib, epoch_s, costs[checkout], "here" if checkout == HERE else "other")


def show(mib: float, epoch_s: float, costs: list[Cost], name: str) -> None:
    walls = [cost.wall for cost in costs]
    median, mean = statistics.median(walls), statistics.fmean(walls)
    p90 = statistics.quantiles(walls, n=10)[-1]
    share = f"{mean / epoch_s:13.1%}" if epoch_s else f"{'':13}"
    cpu = statistics.fmean(cost.cpu for cost in costs)
    figures = (
        f"{1000 * median:11.1f} {1000 * mean:9.1f} {1000 * p90:8.1f} {share} {1000 * cpu:14.1f}"
    )
    print(f"{mib:6g} {epoch_s:8g}  {name:7} {len(costs):5} {figures}", flush=True)


if __name__ == "__main__":
    main()
