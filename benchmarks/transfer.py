"""What a storage of earlier searches does to the next one, on curves that others made (LCBench).

    python -m benchmarks.transfer FOLDER                    the claims; a quarter of an hour
    python -m benchmarks.transfer FOLDER --split tuning     on which settings were chosen
    python -m benchmarks.transfer FOLDER --quick            that it works, no more

FOLDER, budget, workers and lines are those of `benchmarks.search_curves`. The storage has a search
of bayesopt+forecast on each of eight tuning tasks, none of which is the task itself; "hostile":
each loss in it is replaced by 1 - loss, which reverses the ranks. A search's level is the least
error that any trial has reported at any epoch, as for `tuner best`.

"share": of the budget, until the level of random+asha after the complete budget is reached; means
over seeds of the log error, the median over tasks. "ratio": the error at the end over that of the
same search without a storage, the geometric mean over tasks and seeds. In brackets 95 % intervals,
by a bootstrap over tasks.
"""

import argparse
import platform
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.asynchronous import WORKERS, simulate
from benchmarks.search_curves import (
    BUDGET,
    EPOCHS,
    FLOOR,
    SPACE,
    SPLITS,
    Task,
    curve_of,
    interval,
    rule_of,
)
from benchmarks.search_methods import method
from tuner.search.searchers._portfolio import Source, portfolio
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

LINES = (FLOOR, "hyperopt+asha", "mixed+asha", "bayesopt+forecast")
KINDS = ("without", "storage", "hostile")
EARLIER = "bayesopt+forecast"
SIZE = 8  # of a storage
CONFIGS = 8  # of a portfolio at most, as for 32 trials or more


class Recorded:
    """A search, with the config and the curve of each trial, and all losses in their order."""

    def __init__(self, search):
        self.search, self.configs, self.curves, self.losses = search, [], [], []

    def ask(self, number):
        self.configs.append(dict(self.search.ask(number)))
        self.curves.append({})
        return self.configs[-1]

    def report(self, number, value, epoch):
        self._add(number, value, epoch)
        self.search.report(number, value, epoch)

    def tell(self, number, value, epoch):
        self._add(number, value, epoch)
        self.search.tell(number, value, epoch)

    def _add(self, number, value, epoch):
        self.curves[number][epoch] = value
        self.losses.append(value)


def search(line, folder, task, seed, first=()):
    """The recorded search, which begins with the configs `first`."""
    name, rule = line.split("+")
    searcher = method(name, Task(SPACE), seed, EPOCHS)
    searcher.search.begin_with(first)
    recorded = Recorded(searcher)
    simulate(
        recorded,
        rule_of(rule, name),
        lambda config: curve_of(folder, task, config),
        epochs=EPOCHS,
        budget=BUDGET,
        seed=seed,
        typical=1.0,
    )
    return recorded


def source(trials, is_hostile):
    """The source of a portfolio that a recorded search is."""
    known = [(c, curve) for c, curve in zip(trials.configs, trials.curves, strict=True) if curve]
    curves = [
        {epoch: 1 - loss if is_hostile else loss for epoch, loss in curve.items()}
        for _, curve in known
    ]
    return Source([config for config, _ in known], curves, [True] * len(known))


def first_configs(arguments):
    """What a search of the task begins with."""
    kind, task, earlier = arguments  # of each tuning task its recorded search
    if kind == "without":
        return ()
    tasks = SPLITS["tuning"]
    start = next(split.index(task) for split in SPLITS.values() if task in split)
    names = [tasks[(start + 1 + n) % len(tasks)] for n in range(SIZE)]
    sources = [source(earlier[name], kind == "hostile") for name in names]
    return portfolio(sources, Encoding(parse_space(SPACE)), CONFIGS)


def trials_of(arguments):
    recorded = search(*arguments)
    recorded.search = None  # it stays in its process
    return recorded


def levels_of(arguments):
    """The level after each epoch spent."""
    return np.minimum.accumulate(search(*arguments).losses)


def median_interval(by_task_T, draws=10_000):
    rows = np.random.default_rng(0).integers(len(by_task_T), size=(draws, len(by_task_T)))
    medians = np.median(by_task_T[rows], axis=1)
    return np.quantile(medians, [0.025, 0.975], method="nearest")


def show(log_levels, line, tasks, seeds):
    """log_levels: of each (line, kind, task), of shape (seeds, epochs spent)."""
    print(f"{line:20}", end="")
    for kind in KINDS[:2]:
        shares = []
        for task in tasks:
            level = log_levels[FLOOR, "without", task][:, -1].mean()
            reached = np.flatnonzero(log_levels[line, kind, task].mean(axis=0) <= level + 1e-9)
            shares.append((reached[0] + 1) / BUDGET if len(reached) else np.inf)
        low, high = median_interval(np.array(shares))
        print(f" {np.median(shares):.2f} [{low:.2f}, {high:.2f}]", end="  ")
    for kind in KINDS[1:]:
        cold_T, warm_T = (
            np.array([log_levels[line, each, task][:, -1].mean() for task in tasks])
            for each in ("without", kind)
        )
        low, high = np.exp(interval(warm_T - cold_T))
        print(f" {np.exp((warm_T - cold_T).mean()):.2f} [{low:.2f}, {high:.2f}]", end="  ")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--split", choices=sorted(SPLITS), default="claims")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    tasks, count = SPLITS[arguments.split], arguments.seeds
    lines = list(dict.fromkeys([FLOOR, *arguments.lines.split(",")]))
    if arguments.quick:
        tasks, lines, count = tasks[:2], lines[:1], 1
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    with ProcessPoolExecutor(arguments.processes) as pool:
        pairs = [*product(seeds, SPLITS["tuning"])]
        before = [(EARLIER, arguments.folder, task, 1000 + seed) for seed, task in pairs]
        earlier = dict(zip(pairs, pool.map(trials_of, before), strict=True))
        by_seed = {seed: {t: earlier[seed, t] for t in SPLITS["tuning"]} for seed in seeds}
        begins = [*product(KINDS, tasks, seeds)]
        known = [(kind, task, by_seed[seed]) for kind, task, seed in begins]
        first = dict(zip(begins, pool.map(first_configs, known), strict=True))
        keys = [*product(lines, KINDS, tasks, seeds)]
        jobs = [
            (line, arguments.folder, task, seed, first[kind, task, seed])
            for line, kind, task, seed in keys
        ]
        levels = dict(zip(keys, pool.map(levels_of, jobs), strict=True))
    log_levels = {
        (line, kind, task): np.log([levels[line, kind, task, seed] for seed in seeds])
        for line, kind, task in product(lines, KINDS, tasks)
    }
    print(f"{len(tasks)} tasks ({arguments.split}), {count} seeds from {seeds[0]}, ", end="")
    print(f"{WORKERS} workers, {BUDGET} epochs; Python {platform.python_version()}")
    print(f"{'':20} {'share without':20}{'share':20} {'ratio':19} ratio, hostile")
    for line in lines:
        show(log_levels, line, tasks, seeds)


if __name__ == "__main__":
    main()
