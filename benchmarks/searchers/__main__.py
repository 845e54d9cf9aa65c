"""How each strategy does on five kinds of task, beside random search under ASHA.

    python -m benchmarks.searchers FOLDER --split claims        half an hour of two cores
    python -m benchmarks.searchers FOLDER                       on which settings were chosen
    python -m benchmarks.searchers FOLDER --quick               that it works, no more

FOLDER is LCBench's, as in `benchmarks.searchers.lcbench`; the kinds are those of
`benchmarks.searchers.tasks`. A line is SEARCH+RULE; rules are `asha` (reduction factor 3, rungs
from epoch 1) and `none`. Four asynchronous workers are simulated, with the epochs of 12 whole
trials.

"regret": that of the best whole trial, above the least loss that any search of the task has met (on
LCBench: the error itself), as a ratio to random's under ASHA. Means over seeds, the geometric mean
over tasks, in brackets its 95 % interval by a bootstrap over tasks. "trials": begun, and trained to
their end.
"""

import argparse
import platform
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.searchers.methods import method
from benchmarks.searchers.simulation import WORKERS, simulate
from benchmarks.searchers.tasks import KINDS, tasks
from tuner.search.schedulers.asha import AshaSettings, Brackets

FLOOR = "random+asha"
LINES = (FLOOR, "mixed+asha", "hyperopt+asha", "bayesopt+asha", "optuna-tpe+asha")
WHOLE = 12  # trainings, the budget of a search
LEAST = 1e-2  # of all searches' regret; less cannot be distinguished


@dataclass(frozen=True)
class Task:
    """What a search sees of a task."""

    space: dict


class Unstopped:
    """A rule that stops no trial."""

    def goes_on(self, trial_id, epoch, loss):
        return True


def rule_of(name, epochs):
    """The rule of this name."""
    if name == "asha":
        return Brackets(AshaSettings(max_t=epochs, reduction_factor=3, grace_period=1))
    return {"none": Unstopped}[name]()


def interval(by_task_T, draws=10_000):
    """The 95 % interval of the mean over tasks, by a bootstrap of tasks."""
    rows = np.random.default_rng(0).integers(
        len(by_task_T), size=(draws, len(by_task_T))
    )
    return np.quantile(by_task_T[rows].mean(axis=1), [0.025, 0.975])


class Watched:
    """A rule, and of each trial the true end and the last epoch."""

    def __init__(self, rule):
        self.rule = rule
        self.ends = {}
        self.reached = {}

    def begins(self, trial_id, curve):
        self.ends[trial_id] = float(curve[-1])

    def goes_on(self, trial_id, epoch, loss):
        self.reached[trial_id] = epoch
        return self.rule.goes_on(trial_id, epoch, loss)


def search(job):
    """(job, the last best, the least end met, trials begun, trials whole)."""
    import torch

    torch.set_num_threads(1)
    line, kind, folder, split, index, seed = job
    task = tasks(kind, folder, split)[index]
    name, rule = line.split("+")
    watched = Watched(rule_of(rule, task.epochs))
    random = method("random", Task(task.space), 0)
    typical = float(np.median([task.curve(random.ask(n))[-1] for n in range(30)]))
    best = simulate(
        method(name, Task(task.space), seed, task.epochs),
        watched,
        task.curve,
        epochs=task.epochs,
        budget=WHOLE * task.epochs,
        seed=seed,
        typical=typical,
    )
    whole = sum(epoch == task.epochs for epoch in watched.reached.values())
    least = min(watched.ends.values())
    return job, best[-1], least, len(watched.ends), whole


def show(runs, lines, kinds, folder, split, seeds):
    print(f"{len(seeds)} seeds from {seeds[0]}, {WORKERS} workers; ", end="")
    packages = ("optuna", "hyperopt", "numpy", "scipy")
    print(
        ", ".join(f"{p} {version(p)}" for p in packages),
        f"; Python {platform.python_version()}",
    )
    print(f"{'':22}{'':14}regret                trials")
    for line in lines:
        for kind in kinds:
            count = len(tasks(kind, folder, split))
            logs = []
            begun = []
            whole = []
            for index in range(count):
                mine = [runs[line, kind, folder, split, index, seed] for seed in seeds]
                floor = [
                    runs[FLOOR, kind, folder, split, index, seed] for seed in seeds
                ]
                others = [
                    run
                    for key, run in runs.items()
                    if key[1] == kind and key[4] == index
                ]
                least = 0.0 if kind == "lcbench" else min(run[1] for run in others)
                least_regret = (
                    LEAST * (np.mean([run[0] for run in others]) - least) or 1e-12
                )
                regret, level = (
                    max(np.mean([run[0] for run in each]) - least, least_regret)
                    for each in (mine, floor)
                )
                logs.append(np.log(regret / level))
                begun += [run[2] for run in mine]
                whole += [run[3] for run in mine]
            low, high = np.exp(interval(np.array(logs)))
            print(
                f"{line:22}{kind:14}{np.exp(np.mean(logs)):.2f} [{low:.2f}, {high:.2f}]",
                end="",
            )
            print(f"{np.mean(begun):10.0f} {np.mean(whole):4.1f}", end="")
            print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--split", choices=("tuning", "claims"), default="tuning")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    lines = list(dict.fromkeys([FLOOR, *arguments.lines.split(",")]))
    kinds = arguments.kinds.split(",")
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.quick:
        lines = lines[:2]
        kinds = ["tables"]
        seeds = seeds[:1]
    jobs = [
        (line, kind, arguments.folder, arguments.split, index, seed)
        for seed in seeds
        for kind in kinds
        for index in range(len(tasks(kind, arguments.folder, arguments.split)))
        for line in lines
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = {job: tuple(run) for job, *run in pool.map(search, jobs)}
    show(runs, lines, kinds, arguments.folder, arguments.split, seeds)


if __name__ == "__main__":
    main()
