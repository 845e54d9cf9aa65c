"""What `stop.utility` saves of a search's time, and what the search loses for it.

    python -m benchmarks.stop_utility FOLDER                   the claims, ten minutes of a core
    python -m benchmarks.stop_utility FOLDER --split tuning    on which the estimate was chosen
    python -m benchmarks.stop_utility FOLDER --quick           that it works, no more

FOLDER is LCBench's, as in `benchmarks.search_curves`, whose `--seconds` this simulates. Time is
scaled so that a whole trial of median pace takes an hour: searches of `--hours` on four workers, of
`--lines` as there. The objective is the error on the validation set, of all reports.

"expected" and "came": the means of the gain that was expected of the next hour, and of that which
came, after each hour of a third of the search. Of each utility, "saved": the mean share of time;
"lost": by how much the best error is above that of the complete search, on average, for each hour
saved, and as a ratio (the geometric mean, with its 95 % interval by a bootstrap over tasks);
"fixed": the first and the last of these if all searches end after the same time.
"""

import argparse
import platform
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.search_curves import EPOCHS, SPLITS, interval, search
from tuner.experiment.trials import Best, Run, TrialRecord, expected_gain
from tuner.spec.sections import Objective

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
    """(hour, best error, expected gain) after each trial that ended."""
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

    *what, hours = arguments
    search(*what, in_seconds=True, budget=4 * hours * EPOCHS, watch=watch, ended=ended)
    return arguments, [point for point in points if point[0] <= hours]


def best_after(points, hour):
    """The best error after so many hours, or the first one."""
    return [best for at, best, _ in points if at <= hour or at == points[0][0]][-1]


def end_of(points, utility, hours):
    """The hour at which the search ends."""
    ends = (at for at, _, gain in points if gain is not None and gain < utility)
    return next(ends, hours)


def show(mine, tasks, seeds, hours):
    pairs = []
    for points in mine.values():
        for hour in range(1, hours):
            gains = [gain for at, _, gain in points if at <= hour]
            if gains and gains[-1] is not None:
                came = best_after(points, hour) - best_after(points, hour + 1)
                pairs.append((hour, gains[-1], came))
    for third in range(3):
        rows = [pair for pair in pairs if 3 * (pair[0] - 1) // (hours - 1) == third]
        _, expected, came = np.mean(rows, axis=0)
        print(f"third {third + 1}: expected {expected:.4f}, came {came:.4f}, n = {len(rows)}")
    print("utility  saved    lost  per hour  ratio                 fixed")
    whole = {key: best_after(points, hours) for key, points in mine.items()}
    for utility in UTILITIES:
        end = {key: end_of(points, utility, hours) for key, points in mine.items()}
        saved = hours - np.mean(list(end.values()))
        row = f"{utility:7g} {saved / hours:6.0%}"
        for ends in (end, dict.fromkeys(end, hours - saved)):
            early = {key: best_after(points, ends[key]) for key, points in mine.items()}
            lost = np.mean([early[key] - whole[key] for key in mine])
            logs = [np.mean([np.log(early[t, s] / whole[t, s]) for s in seeds]) for t in tasks]
            ratio = f"{np.exp(np.mean(logs)):.3f}"
            if ends is end:
                low, high = np.exp(interval(np.array(logs)))
                row += (
                    f" {lost:7.4f}  {lost / max(saved, 1e-9):8.5f}  {ratio} [{low:.3f}, {high:.3f}]"
                )
            else:
                row += f"  {lost:.4f} {ratio}"
        print(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--split", choices=sorted(SPLITS), default="claims")
    parser.add_argument("--lines", default="random+asha")
    parser.add_argument("--hours", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    lines, tasks, count = arguments.lines.split(","), SPLITS[arguments.split], arguments.seeds
    if arguments.quick:
        lines, tasks, count = lines[:1], tasks[:2], 1
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    jobs = [
        (line, arguments.folder, task, seed, arguments.hours)
        for line in lines
        for task in tasks
        for seed in seeds
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = dict(pool.map(job, jobs))
    for line in lines:
        print(
            f"{line}: {len(tasks)} tasks ({arguments.split}), {count} seeds from {seeds[0]}", end=""
        )
        print(f", {arguments.hours} hours; numpy {version('numpy')}", end="")
        print(f", Python {platform.python_version()}")
        mine = {key[2:4]: points for key, points in runs.items() if key[0] == line}
        show(mine, tasks, seeds, arguments.hours)


if __name__ == "__main__":
    main()
