"""How far each search gets under early stopping on learning curves that others made (LCBench).

    python -m benchmarks.search_curves FOLDER                   the claims; an hour of two cores
    python -m benchmarks.search_curves FOLDER --split tuning    on which settings were chosen
    python -m benchmarks.search_curves FOLDER --seconds         at equal seconds, not epochs
    python -m benchmarks.search_curves FOLDER --quick           that it works, no more
    python -m benchmarks.search_curves FOLDER --cost            CPU of decisions and suggestions

FOLDER holds `model.onnx` and `encoding.json` of the folder `lcbench` of YAHPO Gym's data
(github.com/slds-lmu/yahpo_data, Apache-2.0): a surrogate of the curves of LCBench (Zimmer, Lindauer
and Hutter, "Auto-PyTorch Tabular", 2021), fully connected networks of 7 hyperparameters on 35
OpenML tasks. Needs `onnxruntime`. The error on the validation set over 50 epochs is minimised. Four
asynchronous workers are simulated (`benchmarks.asynchronous`), with the epochs of 12 whole trials.

A line is SEARCH+RULE. Rules: `asha` (reduction factor 3, rungs from epoch 1; `asha9`: from epoch
9; `asha-brackets`: in as many brackets as the search has by default), `forecast` (tuner's stopping
by prediction), `none`, and `freeze-thaw`, which pauses trials and goes on with the most promising
(`benchmarks.freeze_thaw`; tuner has none). With `--seconds` an epoch takes its config's time on
the task, with lognormal noise of 20 %, and the budget is that of 12 whole trials of median pace;
`forecast-seconds` is `forecast` with `scheduler.cost=seconds`. What cannot be had in earnest:
`oracle` stops a trial at its first report if another one that is known will end better;
`bayesopt-told` is given the true end of every trial at its first report. `random+top` trains half
of the budget in trials of one epoch, and then the best of them to their end.

"ratio" is the error after the whole budget over that of random+asha, the geometric mean over tasks
and seeds; in brackets its 95 % interval, by a bootstrap over tasks. "budget" is the share of the
budget after which the mean over seeds of the log error is at random+asha's last, and the share of
tasks where it comes there: the median over tasks.
"""

import argparse
import json
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks import freeze_thaw
from benchmarks.asynchronous import WORKERS, simulate
from benchmarks.search_methods import method
from tuner.search.schedulers._stopping import Forecasts
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.spec.sections import Objective
from tuner.spec.strategies import SEARCHERS

EPOCHS = 50
BUDGET = 12 * EPOCHS
FASTEST = 0.1  # of the median pace: the surrogate's times may be near 0
SPACE = {
    "batch_size": "lograndint(16, 513)",
    "learning_rate": "loguniform(1e-4, 1e-1)",
    "momentum": "uniform(0.1, 0.99)",
    "weight_decay": "uniform(1e-5, 0.1)",
    "num_layers": "randint(1, 6)",
    "max_units": "lograndint(64, 1025)",
    "max_dropout": "uniform(0, 1)",
}
SPLITS = {
    "tuning": (
        *("3945", "7593", "34539", "126026", "167152", "167168", "167181", "167190", "167200"),
        *("168868", "189354", "189862", "168329", "168330", "168331", "168908", "168910"),
    ),
    "claims": (
        *("126025", "126029", "146212", "167083", "167104", "167149", "167161", "167184"),
        *("167185", "167201", "168335", "189905", "189865", "189866", "189873", "189906"),
        *("189908", "189909"),
    ),
}
FLOOR = "random+asha"
LINES = (
    *(FLOOR, "random+top", "ray-hyperopt+asha", "optuna-tpe+asha"),
    *("hyperopt+asha", "bohb+asha", "bohb+asha-brackets", "bayesopt+asha"),
    *("random+forecast", "hyperopt+forecast", "bohb+forecast", "bayesopt+forecast"),
    *("random+oracle", "bayesopt-told+asha", "bayesopt+oracle"),
)


@dataclass(frozen=True)
class Task:
    """What a search sees of the task."""

    space: dict


@cache
def surrogate(folder):
    """(the session, {task: its code}) of the model in a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    return session, json.loads((folder / "encoding.json").read_text())["OpenML_task_id"]


def measured(folder, task, config):
    """Seconds from the start, and accuracy in percent, after each epoch; and four other columns."""
    session, codes = surrogate(folder)
    row = np.array([config[name] for name in SPACE], dtype=np.float32)
    x_EF = np.column_stack([np.arange(1, EPOCHS + 1), np.tile(row, (EPOCHS, 1))])
    inputs = {"x_cat": np.full((EPOCHS, 1), codes[task], np.int32), "x_cont": np.float32(x_EF)}
    return session.run(None, inputs)[0].astype(float)


def curve_of(folder, task, config):
    """The validation error after each epoch."""
    return np.clip((100 - measured(folder, task, config)[:, 1]) / 100, 1e-4, 1.0)


def pace_of(folder, task, config):
    """The seconds of an epoch."""
    return measured(folder, task, config)[-1, 0] / EPOCHS


class Oracle:
    """Stops a trial at its first report if one that is known ends better."""

    def __init__(self):
        self.ends, self.best = {}, np.inf

    def begins(self, trial_id, curve):
        self.ends[trial_id] = curve[-1]

    def goes_on(self, trial_id, epoch, loss):
        self.best = min(self.best, self.ends[trial_id])
        return self.ends[trial_id] <= self.best


class Told:
    """A search that learns the true end of a trial with each of its reports."""

    def __init__(self, search, curve_of):
        self.search, self.curve_of, self.ends = search, curve_of, {}

    def ask(self, number):
        config = self.search.ask(number)
        self.ends[number] = float(self.curve_of(config)[-1])
        return config

    def report(self, number, value, epoch):
        pass

    def tell(self, number, value, epoch):
        self.search.tell(number, self.ends[number], EPOCHS)


class Unstopped:
    def goes_on(self, trial_id, epoch, loss):
        return True


def rule_of(name, strategy, epochs=EPOCHS):
    """The rule of this name, for a search of this strategy."""
    if name == "asha-brackets":
        count = SEARCHERS.settings(strategy).brackets
        return Brackets(AshaSettings(max_t=epochs, reduction_factor=3, grace_period=1), count)
    if name.startswith("asha"):
        first = int(name.removeprefix("asha") or 1)
        return Brackets(AshaSettings(max_t=epochs, reduction_factor=3, grace_period=first))
    if name.startswith("forecast"):
        objective, in_seconds = Objective(metric="error", mode="min"), name != "forecast"
        return Forecasts(objective, max_t=epochs, grace=1, peers=3, in_seconds=in_seconds)
    return {"oracle": Oracle, "none": Unstopped}[name]()


def search(
    line,
    folder,
    task,
    seed,
    space=SPACE,
    *,
    in_seconds=False,
    budget=BUDGET,
    watch=lambda rule: rule,
    ended=None,
):
    """The best whole trial's error after each epoch, or median epoch's time, spent.

    watch(rule): what stands in for the rule. ended: see `simulate`.
    """
    name, rule = line.split("+")

    def curve(config):
        return curve_of(folder, task, config)

    searcher = method(name.removesuffix("-told"), Task(space), seed, EPOCHS)
    if name.endswith("-told"):
        searcher = Told(searcher, curve)
    random = np.random.default_rng(0)
    configs = [method("random", Task(SPACE), 0).ask(int(n)) for n in random.integers(1e6, size=50)]
    typical = float(np.median([curve(config)[-1] for config in configs]))
    median_s = float(np.median([pace_of(folder, task, config) for config in configs]))

    def pace(config):
        return max(pace_of(folder, task, config) / median_s, FASTEST)

    if rule == "top":
        return one_epoch_then_top(searcher, curve, typical)
    if rule == "freeze-thaw":
        return freeze_thaw.simulate(
            searcher, curve, epochs=EPOCHS, budget=BUDGET, seed=seed, typical=typical
        )
    return simulate(
        searcher,
        watch(rule_of(rule, name)),
        curve,
        epochs=EPOCHS,
        budget=budget,
        seed=seed,
        typical=typical,
        ended=ended,
        pace_of=pace if in_seconds else None,
    )


def one_epoch_then_top(searcher, curve, typical):
    """Half of the budget in trials of one epoch; the best of them then train to their end."""
    curves = sorted((tuple(curve(searcher.ask(n))) for n in range(BUDGET // 2)), key=lambda c: c[0])
    found, best = [typical] * (BUDGET // 2), typical
    while len(found) < BUDGET:
        batch, curves = curves[:WORKERS], curves[WORKERS:]
        found += [best] * (WORKERS * (EPOCHS - 1))
        best = min(best, *(c[-1] for c in batch))
    return [*found[: BUDGET - 1], best if len(found) == BUDGET else found[BUDGET - 1]]


class Timed:
    """A rule, and the CPU seconds of each of its answers."""

    def __init__(self, rule):
        self.rule, self.seconds = rule, []

    def goes_on(self, trial_id, epoch, loss):
        started = time.process_time()
        answer = self.rule.goes_on(trial_id, epoch, loss)
        self.seconds.append(time.process_time() - started)
        return answer


class Kept:
    """Random search that keeps its trials: number -> (config, losses)."""

    def __init__(self):
        self.random, self.trials = method("random", Task(SPACE), 0), {}

    def ask(self, number):
        config = self.random.ask(number)
        self.trials[number] = config, []
        return config

    def report(self, number, value, epoch):
        self.trials[number][1].append(value)

    tell = report


def show_cost(folder, task, trials=1000, latest=100):
    """CPU of a decision by forecast, and of a suggestion, after so many random trials."""
    kept, timed = Kept(), Timed(rule_of("forecast", "random"))

    def curve(config):
        return curve_of(folder, task, config)

    common = {"epochs": EPOCHS, "seed": 0, "typical": 1.0}
    budget = trials
    while len(kept.trials) < trials:
        budget += trials // 4
        kept, timed = Kept(), Timed(rule_of("forecast", "random"))
        simulate(kept, timed, curve, budget=budget, **common)
    print(f"{len(kept.trials)} trials, {budget} epochs; Python {platform.python_version()}")
    print(f"{'ms of CPU':12} median  most")
    show_times("decision", timed.seconds[-latest:])
    for name in ("bayesopt", "hyperopt", "mixed", "bohb"):
        searcher = method(name, Task(SPACE), 0, EPOCHS)
        for number, (config, losses) in kept.trials.items():
            searcher.search.take_trial(f"{number:05d}", config)
            for epoch, loss in enumerate(losses, 1):
                searcher.report(number, loss, epoch)
            if losses:
                searcher.tell(number, losses[-1], len(losses))
        seconds = []
        for number in range(len(kept.trials), len(kept.trials) + latest // 4):
            started = time.process_time()
            config = searcher.ask(number)
            seconds.append(time.process_time() - started)
            searcher.tell(number, curve(config)[0])
        show_times(name, seconds)


def show_times(what, seconds):
    times = 1000 * np.array(seconds)
    print(f"{what:12} {np.median(times):6.1f} {times.max():5.1f}", flush=True)


def _job(job):
    import torch

    torch.set_num_threads(1)
    *what, in_seconds = job
    return job, search(*what, in_seconds=in_seconds)


def ratios(runs, line, tasks, seeds, floor=FLOOR):
    """The log of the line's error over the floor's, of each task and seed."""
    last = {key: np.log(run[-1]) for key, run in runs.items()}
    return np.array([[last[line, t, s] - last[floor, t, s] for s in seeds] for t in tasks])


def shares(runs, line, tasks, seeds, floor=FLOOR):
    """The share of the budget to the floor's last level, of each task; inf: never."""
    found = []
    for task in tasks:
        mean = np.log([runs[line, task, seed] for seed in seeds]).mean(axis=0)
        level = np.log([runs[floor, task, seed][-1] for seed in seeds]).mean()
        reached = np.flatnonzero(mean <= level + 1e-9)
        found.append((reached[0] + 1) / BUDGET if len(reached) else np.inf)
    return np.array(found)


def interval(by_task_T, draws=10_000):
    """The 95 % interval of the mean over tasks, by a bootstrap of tasks."""
    rows = np.random.default_rng(0).integers(len(by_task_T), size=(draws, len(by_task_T)))
    return np.quantile(by_task_T[rows].mean(axis=1), [0.025, 0.975])


def show(runs, split, lines, tasks, seeds, unit, floor):
    print(f"{len(tasks)} tasks ({split}), {len(seeds)} seeds from {seeds[0]}, ", end="")
    print(f"{WORKERS} workers, {BUDGET} {unit}; ", end="")
    packages = ("optuna", "hyperopt", "ray", "onnxruntime", "numpy")
    print(", ".join(f"{p} {version(p)}" for p in packages), f"; Python {platform.python_version()}")
    print(f"{'':20} ratio                 budget  tasks")
    for line in lines:
        log_TS = ratios(runs, line, tasks, seeds, floor)
        low, high = np.exp(interval(log_TS.mean(axis=1)))
        share_T = shares(runs, line, tasks, seeds, floor)
        print(f"{line:20} {np.exp(log_TS.mean()):.2f} [{low:.2f}, {high:.2f}] ", end="")
        print(f"{np.median(share_T):12.2f}  {np.isfinite(share_T).mean():5.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of LCBench's surrogate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cost", action="store_true", help="CPU of decisions and suggestions")
    parser.add_argument("--split", choices=sorted(SPLITS), default="claims")
    parser.add_argument("--seconds", action="store_true", help="without top, freeze-thaw")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--floor", default=FLOOR, help="the line of which others are a ratio")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=Path, help="a file that keeps runs; those it has are reused")
    arguments = parser.parse_args()
    if arguments.cost:
        show_cost(arguments.folder, SPLITS["tuning"][0])
        return
    lines = list(dict.fromkeys([arguments.floor, *arguments.lines.split(",")]))
    if arguments.seconds:
        lines = [line for line in lines if not line.endswith(("+top", "+freeze-thaw"))]
    tasks, count = SPLITS[arguments.split], arguments.seeds
    if arguments.quick:
        lines, tasks, count = lines[:2], tasks[:2], 2
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    runs = {}
    if arguments.runs and arguments.runs.exists():
        runs = {tuple(key): run for key, run in json.loads(arguments.runs.read_text())}
    jobs = [
        (line, arguments.folder, task, seed, arguments.seconds)
        for seed in seeds
        for task in tasks
        for line in lines
        if (line, task, seed) not in runs
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for done, ((line, _, task, seed, _), run) in enumerate(pool.map(_job, jobs)):
            runs[line, task, seed] = run
            if arguments.runs and (done % 10 == 9 or done == len(jobs) - 1):
                kept = json.dumps([[list(key), run] for key, run in runs.items()])
                arguments.runs.write_text(kept)
            if done % 50 == 0:
                print(f"{done} of {len(jobs)} searches", file=sys.stderr)
    unit = "times the seconds of a median epoch" if arguments.seconds else "epochs"
    show(runs, arguments.split, lines, tasks, seeds, unit, arguments.floor)


if __name__ == "__main__":
    main()
