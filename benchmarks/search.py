"""How good a config each search finds in a number of trials, with four trials at a time.

    python -m benchmarks.search             about 40 minutes of two cores
    python -m benchmarks.search --quick     a small run: shows that it works, proves nothing
    python -m benchmarks.search --split tuning    the tasks on which settings were chosen

The tasks are in `benchmarks.search_tasks`: COCO's BBOB functions, some of them noisy or with spaces
of mixed kinds, and scikit-learn's models on its bundled data, some with conditional spaces. The
claims are made on the `claims` split. Settings were chosen on `tuning`, which shares neither
functions nor data sets with it.

`--methods` may name another package's engine, too: bayesian-optimization.
Without the package coco-experiment only scikit-learn's tasks are run.

Four workers are simulated. Durations vary, and a search is asked for the next config as soon as a
worker is free, while the other three are busy. The score of a search after n trials is
100 * log10(R0 / R) / 3, between 0 and 100. R is the regret of the config that looked best so far,
by its true loss, and R0 the median regret of random configs. So 0 is a random config, and 33, 67,
100 are regrets 10, 100, 1000 times smaller. Differences are paired by task and seed; +- is the half
width of the 95 % interval.
"""

import argparse
import heapq
import json
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.search_methods import METHODS, method
from benchmarks.search_tasks import tasks

WORKERS = 4
DECADES = 3
PAIRS = (
    *(("bayesopt", "optuna-gp"), ("bayesopt", "optuna-tpe"), ("hyperopt", "ray-hyperopt")),
    *(("hyperopt", "optuna-tpe"), ("bohb", "optuna-tpe"), ("bohb", "random")),
    ("bayesopt", "bayesian-optimization"),
)


def search(name, split, task_name, seed, trials):
    """One search of one task: {true: losses of the configs that looked best, seconds, repeats}."""
    task = tasks(split)[task_name]
    searcher = method(name, task, seed)
    rng = np.random.default_rng((seed, 99))  # durations and noise are the same for every search
    durations, noises = rng.lognormal(0, 0.3, trials), rng.standard_normal(trials)
    running, seconds, best, true = [], 0.0, np.inf, []
    live, repeats, asked = {}, 0, 0
    while asked < trials or running:
        if asked < trials and len(running) < WORKERS:
            now = running[0][0] - 1e-9 if len(running) == WORKERS else _now(running, asked)
            started = time.perf_counter()
            config = searcher.ask(asked)
            seconds += time.perf_counter() - started
            if config is None:
                trials = asked
                continue
            key = json.dumps(config, sort_keys=True)
            repeats += key in live.values()
            live[asked] = key
            heapq.heappush(running, (now + durations[asked], asked, config))
            asked += 1
            continue
        _Clock.now, number, config = heapq.heappop(running)
        del live[number]
        loss = task.evaluate(config)
        seen = loss + task.noise * noises[number]
        started = time.perf_counter()
        searcher.tell(number, seen)
        seconds += time.perf_counter() - started
        if seen < best:
            best, chosen = seen, loss
        true.append(chosen)
    return {"true": true, "seconds": seconds, "repeats": repeats, "given": asked}


class _Clock:
    now = 0.0


def _now(running, asked):
    return 0.0 if asked < WORKERS else _Clock.now


def _job(job):
    import torch

    torch.set_num_threads(1)
    return job, search(*job)


@cache
def _median(split, task_name):
    return np.median(tasks(split)[task_name].random_losses())


def scores(runs, split, names, at):
    """{method: score of each (task, seed)} after `at` trials."""
    found = {name: [] for name in names}
    keys = sorted({(task, seed) for name, task, seed in runs})
    for task_name, task in tasks(split).items():
        mine = [run for (_, name, _), run in runs.items() if name == task_name]
        if not mine:
            continue
        least = min(min(run["true"]) for run in mine)
        optimum = least if task.optimum is None else min(task.optimum, least)
        typical = _median(split, task_name) - optimum
        for _, seed in (key for key in keys if key[0] == task_name):
            for name in names:
                true = runs[name, task_name, seed]["true"]
                regret = max(true[min(at, len(true)) - 1] - optimum, 1e-12 * typical)
                score = 100 * np.log10(typical / regret) / DECADES if typical > 0 else 100.0
                found[name].append(float(np.clip(score, 0, 100)))
    return found


def interval(a, b):
    """(mean difference, half width of its 95 % interval), paired."""
    difference = np.array(a) - np.array(b)
    width = stats.sem(difference) * stats.t.ppf(0.975, len(difference) - 1)
    return difference.mean(), width


def show(runs, split, names, counts):
    tasks_, seeds = {t for _, t, _ in runs}, {s for _, _, s in runs}
    print(f"{len(tasks_)} tasks ({split}), {len(seeds)} seeds, {WORKERS} workers; ", end="")
    packages = ("optuna", "hyperopt", "bayesian-optimization", "ray", "scikit-learn", "numpy")
    print(", ".join(f"{p} {version(p)}" for p in packages), f"; Python {platform.python_version()}")
    by_count = {at: scores(runs, split, names, at) for at in counts}
    print(f"{'':21}" + "".join(f"{at:>8}" for at in counts) + "   s/search  repeats  trials")
    for name in names:
        mine = [run for (other, _, _), run in runs.items() if other == name]
        means = "".join(f"{np.mean(by_count[at][name]):8.1f}" for at in counts)
        seconds = np.mean([run["seconds"] for run in mine])
        repeats, given = sum(r["repeats"] for r in mine), sum(r["given"] for r in mine)
        print(f"{name:21}{means}   {seconds:8.2f}  {repeats:7}  {given:6}")
    for a, b in PAIRS:
        if a in names and b in names:
            cells = (interval(by_count[at][a], by_count[at][b]) for at in counts)
            print(f"{a} - {b}: " + "  ".join(f"{m:+.1f} +- {w:.1f}" for m, w in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--split", choices=("claims", "tuning"), default="claims")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tasks", help="only those whose name contains this")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=Path, help="a file that keeps runs; those it has are reused")
    arguments = parser.parse_args()
    names = arguments.methods.split(",")
    chosen = [t for t in tasks(arguments.split) if (arguments.tasks or "") in t]
    seeds, trials = arguments.seeds, arguments.trials
    if arguments.quick:
        chosen, seeds, trials = chosen[::9], 1, 20
    runs = {}
    if arguments.runs and arguments.runs.exists():
        runs = {tuple(key): run for key, run in json.loads(arguments.runs.read_text())}
    jobs = [
        (name, arguments.split, task, seed, trials)
        for seed in range(seeds)
        for task in chosen
        for name in names
        if (name, task, seed) not in runs
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for done, ((name, _, task, seed, _), run) in enumerate(pool.map(_job, jobs)):
            runs[name, task, seed] = run
            if arguments.runs and (done % 50 == 49 or done == len(jobs) - 1):
                text = json.dumps([[list(key), run] for key, run in runs.items()])
                arguments.runs.write_text(text)
            if done % 50 == 0:
                print(f"{done} of {len(jobs)} searches", file=sys.stderr)
    wanted = {k: r for k, r in runs.items() if k[0] in names and k[1] in chosen and k[2] < seeds}
    counts = [at for at in (25, 50, 100) if at <= trials] or [trials]
    show(wanted, arguments.split, names, counts)


if __name__ == "__main__":
    main()
