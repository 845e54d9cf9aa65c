"""How each strategy does on five kinds of task, and whether its forecasts keep their word.

    python -m benchmarks.search_kinds FOLDER --split claims        half an hour of two cores
    python -m benchmarks.search_kinds FOLDER                       on which settings were chosen
    python -m benchmarks.search_kinds FOLDER --quick               that it works, no more

FOLDER is LCBench's, as in `benchmarks.search_curves`; the kinds are those of
`benchmarks.curve_tasks`. A line is SEARCH+RULE, as in `benchmarks.search_curves`. Four asynchronous
workers are simulated, with the epochs of 12 whole trials.

"regret": that of the best whole trial, above the least loss that any search of the task has met (on
LCBench: the error itself), as a ratio to random's under ASHA. Means over seeds, the geometric mean
over tasks, in brackets its 95 % interval by a bootstrap over tasks. "trials": begun, and trained to
their end. "within": the share of forecasts, of all trials, stopped ones included, whose true end is
within one deviation; "beyond": those beyond two.
"""

import argparse
import platform
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks import curve_tasks
from benchmarks.asynchronous import WORKERS, simulate
from benchmarks.search_curves import FLOOR, Task, interval, rule_of
from benchmarks.search_methods import method

LINES = (
    *(FLOOR, "random+forecast", "hyperopt+asha", "hyperopt+forecast"),
    *("bayesopt+asha", "bayesopt+forecast", "optuna-tpe+asha"),
)
WHOLE = 12  # trainings, the budget of a search
LEAST = 1e-2  # of all searches' regret; less cannot be distinguished


class Watched:
    """A rule, and of each trial the true end, the last epoch, and what was forecast."""

    def __init__(self, rule):
        self.rule, self.ends, self.reached = rule, {}, {}

    def begins(self, trial_id, curve):
        self.ends[trial_id] = float(curve[-1])

    def goes_on(self, trial_id, epoch, loss):
        self.reached[trial_id] = epoch
        return self.rule.goes_on(trial_id, epoch, loss)

    def deviations(self):
        """How many deviations each true end is above what was forecast."""
        deviations = []
        for trial_id, end in self.ends.items():
            made = getattr(self.rule, "forecasts", lambda _: {})(trial_id)
            for forecast in made.values():
                side = "high" if end > forecast["end"] else "low"
                width = abs(forecast[side] - forecast["end"])
                deviations.append((end - forecast["end"]) / max(width, 1e-12))
        return deviations


def search(job):
    """(job, the last best, the least end met, trials begun, trials whole, deviations)."""
    import torch

    torch.set_num_threads(1)
    line, kind, folder, split, index, seed = job
    task = curve_tasks.tasks(kind, folder, split)[index]
    name, rule = line.split("+")
    watched = Watched(rule_of(rule, name, task.epochs))
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
    return job, best[-1], least, len(watched.ends), whole, watched.deviations()


def show(runs, lines, kinds, folder, split, seeds):
    print(f"{len(seeds)} seeds from {seeds[0]}, {WORKERS} workers; ", end="")
    packages = ("optuna", "hyperopt", "numpy", "scipy")
    print(", ".join(f"{p} {version(p)}" for p in packages), f"; Python {platform.python_version()}")
    print(f"{'':22}{'':14}regret                trials  within beyond")
    for line in lines:
        for kind in kinds:
            count = len(curve_tasks.tasks(kind, folder, split))
            logs, begun, whole, deviations = [], [], [], []
            for index in range(count):
                mine = [runs[line, kind, folder, split, index, seed] for seed in seeds]
                floor = [runs[FLOOR, kind, folder, split, index, seed] for seed in seeds]
                others = [run for key, run in runs.items() if key[1] == kind and key[4] == index]
                least = 0.0 if kind == "lcbench" else min(run[1] for run in others)
                least_regret = LEAST * (np.mean([run[0] for run in others]) - least) or 1e-12
                regret, level = (
                    max(np.mean([run[0] for run in each]) - least, least_regret)
                    for each in (mine, floor)
                )
                logs.append(np.log(regret / level))
                begun += [run[2] for run in mine]
                whole += [run[3] for run in mine]
                deviations += [z for run in mine for z in run[4]]
            low, high = np.exp(interval(np.array(logs)))
            print(f"{line:22}{kind:14}{np.exp(np.mean(logs)):.2f} [{low:.2f}, {high:.2f}]", end="")
            print(f"{np.mean(begun):10.0f} {np.mean(whole):4.1f}", end="")
            if deviations:
                size = np.abs(deviations)
                print(f"  {np.mean(size <= 1):6.0%} {np.mean(size > 2):6.0%}", end="")
            print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--kinds", default=",".join(curve_tasks.KINDS))
    parser.add_argument("--split", choices=("tuning", "claims"), default="tuning")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    lines = list(dict.fromkeys([FLOOR, *arguments.lines.split(",")]))
    kinds = arguments.kinds.split(",")
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.quick:
        lines, kinds, seeds = lines[:2], ["tables"], seeds[:1]
    jobs = [
        (line, kind, arguments.folder, arguments.split, index, seed)
        for seed in seeds
        for kind in kinds
        for index in range(len(curve_tasks.tasks(kind, arguments.folder, arguments.split)))
        for line in lines
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = {job: tuple(run) for job, *run in pool.map(search, jobs)}
    show(runs, lines, kinds, arguments.folder, arguments.split, seeds)


if __name__ == "__main__":
    main()
