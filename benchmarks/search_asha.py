"""How many epochs each search needs under ASHA, on real learning curves.

    python -m benchmarks.search_asha            about 10 minutes of two cores
    python -m benchmarks.search_asha --quick    a small run: shows that it works, proves nothing
    python -m benchmarks.search_asha --table photographs    one on which settings were chosen

The claims are made on the table `digits` of `benchmarks.learning_curves`: 720 configs of tuner's
image classifier, 10 epochs each. Settings were chosen on the tables `breast_cancer`, `wine` and
`photographs`, which have other data and other models or spaces. Each suggestion gets a curve that
is interpolated (in the logarithm) from those of the nearest configs in the table. So it shows how
good the config is and not how lucky one run of it was. ASHA is tuner's own arithmetic
(`tuner.search.schedulers.asha`), four workers run at a time, and an epoch takes one unit of time.

Regret is the validation loss at the last epoch of the best trial that ran its full length, minus
the lowest loss of 10,000 random configs and of all searches; at least 1e-4. A search receives the
loss of every epoch. Optuna's TPE receives stopped trials as pruned. "epochs to random" is where the
mean log10 regret comes down to random's at the end. +- is the half width of the 95 % interval of
the difference, paired by seed. Behind a search's name "+forecast" stops its trials by tuner's
prediction instead of ASHA.
"""

import argparse
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from benchmarks.asynchronous import WORKERS, simulate
from benchmarks.learning_curves import EPOCHS, SPACES, load_table
from benchmarks.search import interval
from benchmarks.search_methods import method
from tuner.search.schedulers._stopping import Forecasts
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.spec.sections import Objective
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

FLOOR = 1e-4
NEIGHBOURS = 8
FORECAST = "+forecast"  # behind a search's name: its trials are stopped by prediction, not ASHA
METHODS = (
    *("random", "optuna-tpe", "ray-hyperopt", "hyperopt", "bayesopt", "bohb"),
    *("random+forecast", "bayesopt+forecast"),
)


@dataclass(frozen=True)
class Table:
    """What a search sees of the task."""

    space: dict


class Curves:
    """Learning curves of any config, interpolated from a table's."""

    def __init__(self, table):
        self.encoding = Encoding(parse_space(SPACES[table]))
        u_ND, loss_NE = load_table(table)
        self.u_ND = self.encoding.snap(u_ND)
        self.log_NE = np.log(np.clip(loss_NE, 1e-3, 1e2))
        self.typical = float(np.median(loss_NE[:, -1]))

    def __call__(self, u_D):
        squared_N = ((self.u_ND - u_D) ** 2).sum(axis=1)
        near_K = np.argsort(squared_N)[:NEIGHBOURS]
        weight_K = np.exp(-2 * squared_N[near_K] / (squared_N[near_K[NEIGHBOURS // 2]] + 1e-9))
        return np.exp(weight_K @ self.log_NE[near_K] / weight_K.sum())

    def least(self):
        """The least loss at the last epoch among random configs."""
        random = self.encoding.snap(np.random.default_rng(0).random((10_000, len(self.encoding))))
        return min(self(u_D)[-1] for u_D in random)


def search(name, table, seed, budget, reduction_factor, brackets):
    """The best whole trial's loss after each epoch spent, 1 to `budget`."""
    curves = Curves(table)
    if name.endswith(FORECAST):
        rule = Forecasts(Objective(metric="loss", mode="min"), max_t=EPOCHS, grace=1, peers=3)
    else:
        rule = Brackets(AshaSettings(max_t=EPOCHS, reduction_factor=reduction_factor), brackets)
    return simulate(
        method(name.removesuffix(FORECAST), Table(SPACES[table]), seed, EPOCHS),
        rule,
        lambda config: curves(curves.encoding.encode(config)),
        epochs=EPOCHS,
        budget=budget,
        seed=seed,
        typical=curves.typical,
    )


def _job(job):
    import torch

    torch.set_num_threads(1)
    return job, search(*job)


def show(runs, table, names, seeds, budget):
    print(f"table {table}, {len(seeds)} seeds from {seeds[0]}, ", end="")
    print(f"{WORKERS} workers, {budget} epochs; ", end="")
    print(", ".join(f"{p} {version(p)}" for p in ("optuna", "hyperopt", "ray", "numpy")), end="")
    print(f"; Python {platform.python_version()}")
    least = min(Curves(table).least(), min(map(min, runs.values())))
    curves = {
        n: np.log10(np.maximum([np.subtract(runs[n, s], least) for s in seeds], FLOOR))
        for n in names
    }
    target = curves["random"].mean(axis=0)[-1] if "random" in names else -np.inf
    print(
        f"{'':17}  at {budget // 3}  at {budget}  epochs to random   against optuna-tpe at {budget}"
    )
    for name in names:
        mean = curves[name].mean(axis=0)
        reached = np.flatnonzero(mean <= target + 1e-9)
        needed = str(reached[0] + 1) if len(reached) else "never"
        line = f"{name:17} {mean[budget // 3 - 1]:7.3f} {mean[-1]:7.3f}  {needed:>12}"
        if "optuna-tpe" in names:
            difference, width = interval(curves[name][:, -1], curves["optuna-tpe"][:, -1])
            line += f"          {difference:+.3f} +- {width:.3f}"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", choices=sorted(SPACES), default="digits")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=300, help="epochs in all")
    parser.add_argument("--reduction-factor", type=float, default=3)
    parser.add_argument("--brackets", type=int, default=1, help="of asynchronous Hyperband")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    count, budget = (2, 60) if arguments.quick else (arguments.seeds, arguments.budget)
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    names = arguments.methods.split(",")
    jobs = [
        (name, arguments.table, seed, budget, arguments.reduction_factor, arguments.brackets)
        for seed in seeds
        for name in names
    ]
    runs = {}
    with ProcessPoolExecutor(arguments.processes) as pool:
        for done, ((name, _, seed, *_), found) in enumerate(pool.map(_job, jobs)):
            runs[name, seed] = found
            if done % 20 == 0:
                print(f"{done} of {len(jobs)} searches", file=sys.stderr)
    show(runs, arguments.table, names, seeds, budget)


if __name__ == "__main__":
    main()
