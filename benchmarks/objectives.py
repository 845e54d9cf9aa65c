"""Two objectives with early stopping: validation error against training seconds, on LCBench.

    python -m benchmarks.objectives FOLDER --seeds 5            two minutes of two cores
    python -m benchmarks.objectives FOLDER --split tuning       on which settings were chosen

FOLDER is LCBench's, as in `benchmarks.search_curves`. Four asynchronous workers are simulated, with
the epochs of 12 whole trials. `optuna` is Optuna's default for two objectives; it prunes no trial,
since Optuna refuses to. A line of tuner's is SEARCH+RULE, and a trial counts with the report of its
least error, as in `tuner best`.

"volume" is the hypervolume at the end as a ratio to `optuna`'s, the geometric mean over tasks, in
brackets its 95 % interval by a bootstrap over tasks. "budget" is the share of the epochs after
which the mean over seeds reaches what `optuna` has at the end, the median over tasks, and the share
of tasks where it does. Errors and seconds are scaled by the best, and by the reference point: the
95 % quantiles, of 200 random whole trials. --whole counts only trials that trained to their end.
"""

import argparse
import heapq
import platform
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.asynchronous import WORKERS
from benchmarks.search_curves import BUDGET, EPOCHS, SPACE, SPLITS, Task, interval, measured
from benchmarks.search_methods import Optuna, method
from tuner.experiment.results.selection import hypervolume
from tuner.search.schedulers.asha import AshaSettings, build
from tuner.spec.sections import Objective
from tuner.spec.strategies import SEARCHERS

FLOOR = "optuna"
LINES = (FLOOR, "random+none", "random+asha", "bayesopt+asha", "hyperopt+asha", "mixed+asha")
OBJECTIVE = Objective(metric="error", mode="min", others=[{"metric": "seconds", "mode": "min"}])


class OptunaDefault(Optuna):
    def __init__(self, task, seed):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")
        kind = type(optuna.create_study(directions=["minimize"] * 2).sampler)
        super().__init__(kind.__name__, task, seed)
        self.study = optuna.create_study(directions=["minimize"] * 2, sampler=kind(seed=seed))


def curves(folder, task, config):
    """(error, seconds) after each epoch."""
    y_EM = measured(folder, task, config)
    error_E = np.clip((100 - y_EM[:, 1]) / 100, 1e-4, 1.0)
    return np.column_stack([error_E, np.maximum.accumulate(np.clip(y_EM[:, 0], 1e-3, None))])


def search(line, folder, task, seed, whole):
    """The points that count, with the number of epochs spent at each."""
    name, _, rule = line.partition("+")
    rng, running, points, asked, now, spent = np.random.default_rng((seed, 98)), [], [], 0, 0.0, 0
    if line == FLOOR:
        searcher = OptunaDefault(Task(SPACE), seed)
    else:
        searcher = SEARCHERS.settings(name)(space=SPACE)
        searcher = searcher.build(seed, objective=OBJECTIVE, max_t=EPOCHS)
    grace = EPOCHS if rule in ("", "none") else 1
    settings = AshaSettings(max_t=EPOCHS, reduction_factor=3, grace_period=grace)
    scheduler = build(settings, OBJECTIVE, 1)
    best = {}  # number -> the point with the least error so far
    while spent < BUDGET:
        while len(running) < WORKERS:
            config = searcher.ask(asked) if line == FLOOR else searcher.suggest(f"{asked:05d}")
            heapq.heappush(running, (now + rng.lognormal(0, 0.2), asked, 1))
            best[asked] = (np.inf, np.inf)
            points.append(curves(folder, task, config))
            asked += 1
        now, number, epoch = heapq.heappop(running)
        spent += 1
        error, seconds = points[number][epoch - 1]
        if (not whole and line != FLOOR) or epoch == EPOCHS:
            if error < best[number][0] or line == FLOOR:
                best[number] = (error, seconds)
            yield spent, best[number], number
        result = {"error": error, "seconds": seconds, "training_iteration": epoch}
        goes_on = scheduler.record(f"{number:05d}", epoch, result) and epoch < EPOCHS
        if goes_on:
            if line != FLOOR:
                searcher.on_trial_result(f"{number:05d}", result)
            heapq.heappush(running, (now + rng.lognormal(0, 0.2), number, epoch + 1))
        elif line == FLOOR:
            searcher.study.tell(searcher.trials[number], [error, seconds])
        else:
            searcher.on_trial_complete(f"{number:05d}", result)


def volumes(line, folder, task, seed, whole):
    """The hypervolume after each epoch spent."""
    random = [method("random", Task(SPACE), 10_000).ask(n) for n in range(200)]
    ends = np.array([curves(folder, task, config)[-1] for config in random])
    ideal, worst = ends.min(axis=0), np.quantile(ends, 0.95, axis=0)
    counted, volume, spent_E = {}, 0.0, np.zeros(BUDGET)
    for spent, point, number in search(line, folder, task, seed, whole):
        if counted.get(number) != point:
            counted[number] = point
            scaled = (np.array([*counted.values()]) - ideal) / (worst - ideal)
            volume = hypervolume(map(tuple, scaled.tolist()), (1.0, 1.0))
        spent_E[spent - 1 :] = volume
    return spent_E


def _job(job):
    import torch

    torch.set_num_threads(1)
    return job, volumes(*job)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--split", choices=sorted(SPLITS), default="claims")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--tasks", type=int, help="only the first so many")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    lines = list(dict.fromkeys([FLOOR, *options.lines.split(",")]))
    tasks = SPLITS[options.split][: options.tasks]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    jobs = [(i, options.folder, t, s, options.whole) for i in lines for t in tasks for s in seeds]
    with ProcessPoolExecutor(options.processes) as pool:
        runs = {(line, task, seed): run for (line, _, task, seed, _), run in pool.map(_job, jobs)}
    print(f"{len(tasks)} tasks ({options.split}), {len(seeds)} seeds from {seeds[0]}, ", end="")
    print(f"{WORKERS} workers, {BUDGET} epochs; optuna {version('optuna')}, ", end="")
    print(f"Python {platform.python_version()}\n{'':16} volume                budget  tasks")
    mean = {key: np.mean([runs[(*key, s)] for s in seeds], axis=0) for key in {k[:2] for k in runs}}
    for line in lines:
        ratio_T = np.log([mean[line, t][-1] / mean[FLOOR, t][-1] for t in tasks])
        low, high = np.exp(interval(ratio_T))
        reached = [np.flatnonzero(mean[line, t] >= mean[FLOOR, t][-1] - 1e-12) for t in tasks]
        share_T = np.array([(r[0] + 1) / BUDGET if len(r) else np.inf for r in reached])
        print(f"{line:16} {np.exp(ratio_T.mean()):.2f} [{low:.2f}, {high:.2f}]", end="")
        print(f"{np.median(share_T):13.2f}  {np.isfinite(share_T).mean():5.0%}")


if __name__ == "__main__":
    main()
