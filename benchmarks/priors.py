"""What right and wrong priors do to a search, on learning curves that others made (LCBench).

    python -m benchmarks.priors FOLDER --split claims    a quarter of an hour of a core
    python -m benchmarks.priors FOLDER                   on which settings were chosen
    python -m benchmarks.priors FOLDER --quick           that it works, no more

FOLDER, budget and lines are those of `benchmarks.search_curves`. "right": the prior of each
hyperparameter is that of the best of 200 random configs of another task of the split, moved by a
normal distribution of a tenth of the domain. "wrong": the worst corner of the space on the task
itself. A ratio is the error at the end over that of the same search without priors, the geometric
mean over tasks and seeds, with a 95 % interval by a bootstrap over tasks.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.search_curves import SPACE, SPLITS, Task, curve_of, interval, search
from benchmarks.search_methods import method
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

LINES = ("random+asha", "hyperopt+asha", "mixed+asha", "bayesopt+forecast")
KINDS = ("without", "right", "wrong")


@cache
def best_of_random(folder, task):
    random = method("random", Task(SPACE), 0)
    return min((random.ask(n) for n in range(200)), key=lambda c: curve_of(folder, task, c)[-1])


def with_priors(point_D):
    """The space whose priors are at this point of the unit cube."""
    encoding = Encoding(parse_space(SPACE))
    config = encoding.decode(np.clip(point_D, 0.01, 0.99))
    return {name: f"{text[:-1]}, prior={config[name]!r})" for name, text in SPACE.items()}


def space_of(kind, folder, task, seed):
    encoding = Encoding(parse_space(SPACE))
    if kind == "without":
        return SPACE
    if kind == "right":
        tasks = next(tasks for tasks in SPLITS.values() if task in tasks)
        other = tasks[(tasks.index(task) + 1 + seed) % len(tasks)]
        rng = np.random.default_rng((seed, 7))
        point_D = encoding.encode(best_of_random(folder, other))
        return with_priors(point_D + 0.1 * rng.normal(size=len(point_D)))
    corners = (np.array(corner, float) for corner in product((0.01, 0.99), repeat=len(SPACE)))
    return with_priors(max(corners, key=lambda u: curve_of(folder, task, encoding.decode(u))[-1]))


def job(arguments):
    line, kind, folder, task, seed = arguments
    return arguments, search(line, folder, task, seed, space_of(kind, folder, task, seed))[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--split", choices=sorted(SPLITS), default="tuning")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    tasks, lines, count = SPLITS[arguments.split], arguments.lines.split(","), arguments.seeds
    if arguments.quick:
        tasks, lines, count = tasks[:2], lines[:1], 1
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    jobs = [
        (line, kind, arguments.folder, task, seed)
        for seed, task, line, kind in product(seeds, tasks, lines, KINDS)
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        error = dict(pool.map(job, jobs))
    print(f"{len(tasks)} tasks, {count} seeds from {seeds[0]}\n{'':20} right              wrong")
    for line in lines:
        print(f"{line:20}", end="")
        for kind in KINDS[1:]:
            logs = [
                np.mean(
                    [
                        np.log(error[line, kind, arguments.folder, task, seed])
                        - np.log(error[line, "without", arguments.folder, task, seed])
                        for seed in seeds
                    ]
                )
                for task in tasks
            ]
            low, high = np.exp(interval(np.array(logs)))
            print(f" {np.exp(np.mean(logs)):.2f} [{low:.2f}, {high:.2f}]", end="")
        print()


if __name__ == "__main__":
    main()
