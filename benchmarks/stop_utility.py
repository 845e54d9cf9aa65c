"""What `stop.utility` saves of a search's time, and what the search loses for it.

    python -m benchmarks.stop_utility FOLDER                   the claims, half an hour of a core
    python -m benchmarks.stop_utility FOLDER --split tuning    on which the estimate was chosen
    python -m benchmarks.stop_utility FOLDER --quick           that it works, no more

FOLDER is LCBench's, as in `benchmarks.search_curves`, whose `--seconds` this simulates. Time is
scaled so that a whole trial of median pace takes an hour: searches of 12 hours on four workers,
of `--lines` as there. The objective is the error on the validation set, of all reports.

"expected" and "came": the mean of the gain that was expected of the next hour, after each hour but
the last one, and of the gain that came. Of each utility, "saved": the mean share of the 12 hours;
"lost": by how much the best error is above that after 12 hours, its mean, and the geometric mean of
the ratio with its 95 % interval, by a bootstrap over tasks; "fixed": the two means if all searches
end after the same share of the time.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.search_curves import EPOCHS, SPLITS, interval, search
from tuner.experiment.trials import Best, Run, TrialRecord, expected_gain
from tuner.spec.sections import Objective

HOURS = 12
UTILITIES = (0.03, 0.01, 0.003, 0.001, 0.0003)
OBJECTIVE = Objective(metric="error", mode="min")


class Watched:
    """A rule, and the least loss of each trial."""

    def __init__(self, rule):
        self.rule, self.least = rule, {}

    def took(self, *report):
        if hasattr(self.rule, "took"):
            self.rule.took(*report)

    def goes_on(self, trial_id, epoch, loss):
        self.least[trial_id] = min(loss, self.least.get(trial_id, np.inf))
        return self.rule.goes_on(trial_id, epoch, loss)


def job(arguments):
    """(hour, best error, expected gain) after each trial that ended, in 12 hours."""
    import torch

    torch.set_num_threads(1)
    trials, points, watched = [], [], []

    def watch(rule):
        watched.append(Watched(rule))
        return watched[0]

    def ended(number, now):
        hour, loss = now / (4 * EPOCHS), watched[0].least[str(number)]
        run = Run(0.0, 3600 * hour)  # the workers are never idle
        best = Best(loss, str(number), 1)
        trials.append(TrialRecord(str(number), 0.0, status="completed", runs=[run], best=best))
        best_so_far = min(trial.best.value for trial in trials)
        points.append((hour, best_so_far, expected_gain(trials, OBJECTIVE)))

    budget = 4 * HOURS * EPOCHS
    search(*arguments, in_seconds=True, budget=budget, watch=watch, ended=ended)
    return arguments, [point for point in points if point[0] <= HOURS]


def best_after(points, hour):
    """The best error after so many hours, or the first one."""
    return [best for at, best, _ in points if at <= hour or at == points[0][0]][-1]


def end_of(points, utility):
    """The hour at which the search ends."""
    ends = (at for at, _, gain in points if gain is not None and gain < utility)
    return next(ends, HOURS)


def show(runs, line, tasks, seeds):
    mine = {key[2:]: points for key, points in runs.items() if key[0] == line}
    pairs = []
    for points in mine.values():
        for hour in range(1, HOURS):
            gains = [gain for at, _, gain in points if at <= hour]
            if gains and gains[-1] is not None:
                came = best_after(points, hour) - best_after(points, hour + 1)
                pairs.append((hour, gains[-1], came))
    hours, expected, came = np.array(pairs).T
    for first, last in ((1, 4), (5, 8), (9, 11)):
        rows = (hours >= first) & (hours <= last)
        print(
            f"{line}, after hours {first} to {last}: expected {expected[rows].mean():.4f}", end=""
        )
        print(f", came {came[rows].mean():.4f}")
    print("utility  saved    lost  ratio                 fixed")
    for utility in UTILITIES:
        hour = {key: end_of(points, utility) for key, points in mine.items()}
        fixed = np.mean(list(hour.values()))

        def losses(hour_of, mine=mine):
            whole = {key: best_after(points, HOURS) for key, points in mine.items()}
            early = {key: best_after(points, hour_of(key)) for key, points in mine.items()}
            ratio_T = [np.mean([np.log(early[t, s] / whole[t, s]) for s in seeds]) for t in tasks]
            return np.mean([early[key] - whole[key] for key in mine]), np.array(ratio_T)

        lost, ratio_T = losses(hour.get)
        lost_fixed, fixed_T = losses(lambda key, fixed=fixed: fixed)
        low, high = np.exp(interval(ratio_T))
        print(f"{utility:7g} {1 - fixed / HOURS:6.0%} {lost:7.4f}  ", end="")
        print(f"{np.exp(ratio_T.mean()):.3f} [{low:.3f}, {high:.3f}]  ", end="")
        print(f"{lost_fixed:.4f} {np.exp(fixed_T.mean()):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--split", choices=sorted(SPLITS), default="claims")
    parser.add_argument("--lines", default="random+asha,bayesopt+forecast")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    lines, tasks, count = arguments.lines.split(","), SPLITS[arguments.split], arguments.seeds
    if arguments.quick:
        lines, tasks, count = lines[:1], tasks[:2], 1
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    jobs = [(line, arguments.folder, task, s) for line in lines for task in tasks for s in seeds]
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = dict(pool.map(job, jobs))
    print(f"{len(tasks)} tasks ({arguments.split}), {count} seeds from {seeds[0]}")
    for line in lines:
        show(runs, line, tasks, seeds)


if __name__ == "__main__":
    main()
