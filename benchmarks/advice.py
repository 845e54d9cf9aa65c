"""How many planted faults `tuner advise` finds, and how often it raises a false alarm.

    python -m benchmarks.advice                  the claims; some minutes of a core
    python -m benchmarks.advice --split tuning   on which the thresholds were chosen
    python -m benchmarks.advice --regret         what the advice is worth on spaces cut wrongly
    python -m benchmarks.advice --lcbench FOLDER   domains that are cut on LCBench's tuning tasks
    python -m benchmarks.advice --quick          a small run: shows that it works

A search is simulated with four asynchronous workers, tuner's searchers and tuner's ASHA. Its trials
follow learning curves of two kinds: of synthetic tasks, whose loss is quadratic in four
hyperparameters, and those of `benchmarks.searchers.tables`, whose configs are drawn from a part of
the table. A fault is planted in a sound task: a domain that is cut below or above the
best value, a domain of which four fifths are useless, a region that diverges with a third of the
trials, trials that are too short or too long, trials that overfit, seeds that differ more than the
configs, a useless hyperparameter, a pair that matters only together, a small validation split, a
loss that jumps from epoch to epoch, first epochs that say nothing of the end, trials that each beat
those before, a late first rung, slots that stay empty (for three reasons), a slow data path, a GPU
that is half empty, and copies of images.

`--regret` cuts a domain below or above the best value, and compares the best trial's regret after
the whole budget with that after half of it and a second search in the space that the advice gives.

"found" is the share of searches with a finding of the fault's kind about the right hyperparameter;
"alarms" the share of sound searches with any finding but those of the severity "open". Brackets
hold 95 % intervals (Wilson).
"""

# N configs, D hyperparameters, E epochs

import argparse
import heapq
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.stats import qmc

from benchmarks.searchers import lcbench
from benchmarks.searchers.methods import method
from benchmarks.searchers.simulation import WORKERS
from benchmarks.searchers.tables import SPACES, load_table
from tuner.experiment.history import fold
from tuner.experiment.results.statistics import wilson
from tuner.reporting.advice import advise
from tuner.reporting.advice.record import SearchRecord
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.search.warm_start import WarmStart, WarmTrial
from tuner.spec.experiment import build_spec
from tuner.spec.settings import FaultsError
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

SPACE = {
    "lr": "loguniform(1e-4, 1)",
    "momentum": "uniform(0.5, 0.95)",
    "weight_decay": "loguniform(1e-6, 1e-2)",
    "width": "choice([16, 32, 64, 128])",
}
TABLES = {"tuning": ("breast_cancer", "photographs"), "claims": ("digits", "wine")}
FIRST_SEED = {"tuning": 0, "claims": 30_000}
LENGTH = 27  # epochs
FAULTS = {
    "edge lower": "edge",
    "edge upper": "edge",
    "wasted": "wasted",
    "diverged": "diverged",
    "too short": "max_t_short",
    "too long": "max_t_long",
    "overfitting": "overfitting",
    "noisy seeds": "unconfirmed",
    "useless": "useless",
    "together": "interaction",
    "small split": "validation_small",
    "noisy steps": "noisy_steps",
    "blind rung": "rung_blind",
    "unused rung": "rung_unused",
    "long grace": "grace_long",
    "idle slots": "slots_idle",
    "slow data": "data_slow",
    "spare memory": "memory_spare",
    "copies": "copies",
}
WORSE = 1.2  # times the error, where a cut domain loses
CUT = ("edge lower", "edge upper")  # spaces that are cut wrongly


@dataclass(frozen=True)
class Task:
    """A synthetic task: the loss at the end is quadratic in the unit cube around `best_D`.

    noise: of a seed. diverges: from which quantiles of lr and momentum on. overfits: from which
    share of the epochs on. steeper: above the best values. power: by which a loss falls; None:
    exponentially, flat early. images: of the validation split; then the objective is an accuracy,
    0.9 - error * loss. jumps: the sd of an epoch's loss. blind: so many first epochs have a loss by
    chance. rises: whether each trial is better than those before. grace: the first rung. workers,
    limit: trials at a time, and the spec's max_concurrent. gap: the time between two trials of a
    slot. waits: the mean share of an epoch spent waiting for data. memory: of a GPU that a trial
    takes at most, which varies by a fifth. copies: of images across splits.
    """

    best_D: np.ndarray
    weight_D: np.ndarray
    noise: float = 0.01
    diverges: tuple[float, float] | None = None
    overfits: float | None = None
    power: float | None = 1.0
    together: bool = False
    space: dict | None = None
    length: int = LENGTH
    images: int | None = None
    error: float = 0.15
    steeper: float = 1.0
    jumps: float = 0.0
    blind: int = 0
    rises: bool = False
    grace: int = 1
    workers: int = WORKERS
    limit: int | None = None
    gap: float = 0.0
    waits: float = 0.1
    memory: float = 0.8
    copies: int = 0

    def regret(self, config):
        """By how much the loss at the end is above the least one, without noise."""
        off_D = position(config) - self.best_D
        widths = Encoding(parse_space(SPACE)).columns[-1].centres_C - self.best_D[3]
        least, off_D = (
            np.where(x > 0, x * self.steeper, x) ** 2 for x in (widths, off_D)
        )
        return float(self.weight_D @ off_D - self.weight_D[3] * least.min())

    def curve(self, config, seed):
        """The metrics after each epoch."""
        rng = np.random.default_rng(seed)
        u_D = position(config)
        off_D = u_D - self.best_D
        off_D = np.where(off_D > 0, off_D * self.steeper, off_D)
        loss = float(self.weight_D @ off_D**2)
        if self.together:
            loss += 4 * float(off_D[0] * off_D[1])
        loss = 0.3 + min(loss, 1.5) + self.noise * rng.normal()
        epoch_E = np.arange(1, self.length + 1)
        if self.power is None:
            falling_E = np.exp(-epoch_E / (self.length / 20))
        else:
            falling_E = epoch_E**-self.power
        train_E = loss + 2 * falling_E
        loss_E = train_E + 0.2 * self.noise * rng.normal(size=self.length)
        if self.jumps:
            loss_E = loss_E + self.jumps * rng.normal(size=self.length)
        if self.blind:
            loss_E[: self.blind] = 2.5 + 0.3 * rng.normal()
        if self.overfits is not None:
            loss_E = loss_E + 1.5 * np.maximum(epoch_E / self.length - self.overfits, 0)
        if self.diverges and u_D[0] > self.diverges[0] and u_D[1] > self.diverges[1]:
            loss_E = loss_E + np.where(
                epoch_E >= rng.integers(1, 3), rng.choice([np.nan, 1e3]), 0
            )
        measured = {
            "epoch_s": 10.0,
            "data_s": 10 * rng.beta(10 * self.waits, 10 * (1 - self.waits)),
            "peak_memory_share": self.memory * rng.uniform(0.8, 1),
        }
        losses = zip(loss_E, train_E, strict=True)
        metrics = [{"val_loss": v, "train_loss": t, **measured} for v, t in losses]
        if self.images:
            right = rng.binomial(self.images, np.clip(0.9 - self.error * loss_E, 0, 1))
            return [
                {"val_accuracy": float(r / self.images), **m}
                for r, m in zip(right, metrics, strict=True)
            ]
        return metrics


def position(config):
    """The quantile of each hyperparameter in `SPACE`, beyond 0 and 1 where it lies outside."""
    domains = parse_space(SPACE)
    u_D = []
    for name, domain in domains.items():
        if name == "width":
            u_D.append(
                Encoding(domains)
                .columns[-1]
                .centres_C[domain.values.index(config[name])]
            )
            continue
        scale = np.log if domain.log else float
        low = scale(domain.lower)
        high = scale(domain.upper)
        u_D.append(float((scale(config[name]) - low) / (high - low)))
    return np.array(u_D)


def drawn(rng, fault):
    """A task with a fault, or a sound one (None), and the hyperparameter that is at fault."""
    task = Task(
        rng.uniform(0.25, 0.75, 4),
        rng.uniform(0.6, 1.6, 4),
        noise=rng.uniform(0.005, 0.03),
        steeper=rng.uniform(0.7, 1.4),
    )
    name = list(SPACE)[rng.integers(3)]
    d = list(SPACE).index(name)
    domain = parse_space(SPACE)[name]
    if fault in ("edge lower", "edge upper"):
        weight_D = task.weight_D.copy()
        best_D = task.best_D.copy()
        weight_D[d] *= 2
        is_lower = fault == "edge lower"
        beyond = rng.uniform(0.15, 0.35)
        best_D[d] = 0.3 if is_lower else 0.7
        ends = (0.3 + beyond, 1.0) if is_lower else (0.0, 0.7 - beyond)
        cut = replace(
            domain,
            lower=domain.compute_value(ends[0]),
            upper=domain.compute_value(ends[1]),
        )
        space = {**SPACE, name: str(cut)}
        return replace(task, weight_D=weight_D, best_D=best_D, space=space), name
    if fault == "wasted":
        low = np.log(1e-4)
        high = np.log(1.0)
        start = low - (high - low) * rng.uniform(0, 4)
        wide = (
            f"loguniform({np.exp(start):.3g}, {np.exp(start + 5 * (high - low)):.3g})"
        )
        return replace(task, space={**SPACE, "lr": wide}), "lr"
    if fault == "diverged":
        share = rng.uniform(0.25, 0.4)
        return replace(task, diverges=(1 - share**0.5, 1 - share**0.5)), "lr"
    if fault == "too short":
        return replace(task, power=0.5, length=9), None
    if fault == "too long":
        return replace(task, power=None), None
    if fault == "overfitting":
        return replace(task, overfits=rng.uniform(0.3, 0.5)), None
    if fault == "noisy seeds":
        return replace(task, noise=0.3, weight_D=task.weight_D / 5), None
    if fault == "useless":
        weight_D = task.weight_D.copy()
        weight_D[d] = 0.0
        return replace(task, weight_D=weight_D), name
    if fault == "together":
        weight_D = task.weight_D.copy()
        weight_D[:2] = 0
        best_D = task.best_D.copy()
        best_D[:2] = 0.5
        return replace(task, weight_D=weight_D, best_D=best_D, together=True), "lr"
    if fault == "small split":
        return replace(task, images=100, error=0.05), None
    if fault == "noisy steps":
        return replace(task, jumps=rng.uniform(0.3, 0.6)), None
    if fault == "blind rung":
        return replace(task, blind=int(rng.integers(1, 3))), None
    if fault == "unused rung":
        return replace(task, rises=True), None
    if fault == "long grace":
        return replace(task, grace=9), None
    if fault == "idle slots":
        kinds = ({"gap": 3.0}, {"limit": 8}, {"workers": 25})
        return replace(task, **kinds[rng.integers(3)]), None
    if fault == "slow data":
        return replace(task, waits=rng.uniform(0.4, 0.8)), None
    if fault == "spare memory":
        return replace(task, memory=rng.uniform(0.05, 0.35)), None
    if fault == "copies":
        return replace(
            task, images=20_000, copies=int(40_000 * rng.uniform(0.02, 0.2))
        ), None
    return replace(task, images=rng.choice([None, 50_000])), None


@dataclass(frozen=True)
class Recorded:
    """Curves of N configs of a space, and the name of their learning rate."""

    name: str
    space: dict
    lr: str
    u_ND: np.ndarray
    loss_NE: np.ndarray

    @classmethod
    def table(cls, name):
        return cls(name, SPACES[name], "lr", *load_table(name))

    @classmethod
    def lcbench(cls, folder, task, count=1024):
        """Random configs of one of LCBench's tasks."""
        u_ND = qmc.Sobol(len(lcbench.SPACE), rng=int(task)).random(count)
        made = cls(task, lcbench.SPACE, "learning_rate", u_ND, np.empty(0))
        curves = [lcbench.curve_of(folder, task, config) for config in made.configs]
        return replace(made, loss_NE=np.stack(curves))

    @cached_property
    def configs(self):
        domains = parse_space(self.space).items()
        return [
            {
                key: d.compute_value(float(u))
                for (key, d), u in zip(domains, u_D, strict=True)
            }
            for u_D in self.u_ND
        ]

    @property
    def lr_N(self):
        return self.u_ND[:, list(self.space).index(self.lr)]


class Table:
    """Recorded curves of configs whose learning rate lies between two quantiles of its domain."""

    images = limit = None
    grace = 1
    workers = WORKERS
    gap = 0.0
    copies = 0

    def __init__(self, recorded, low, high, rng):
        rows = np.flatnonzero((recorded.lr_N >= low) & (recorded.lr_N <= high))
        self.rows = rng.permutation(rows)
        self.loss_NE = np.minimum(np.nan_to_num(recorded.loss_NE, posinf=1e3), 1e3)
        self.length = self.loss_NE.shape[1]
        lr = parse_space(recorded.space)[recorded.lr]
        cut = str(
            replace(lr, lower=lr.compute_value(low), upper=lr.compute_value(high))
        )
        self.space = {**recorded.space, recorded.lr: cut}
        self.configs = recorded.configs

    def ask(self, number):
        return self.configs[self.rows[number]]

    def report(self, number, value, epoch):
        """A table learns nothing."""

    tell = report

    def curve(self, config, seed):
        row = next(n for n, known in enumerate(self.configs) if known is config)
        return [{"val_loss": float(value)} for value in self.loss_NE[row]]


def simulated(task, searcher, trials, seed, *, strategy="random", budget=np.inf):
    """The record of a search of so many trials, or of so many epochs if these end it."""
    metric = "val_accuracy" if task.images else "val_loss"
    sign = -1 if task.images else 1
    settings = {"max_t": task.length, "grace_period": task.grace}
    spec = build_spec(
        {
            "trainable": "benchmarks.advice:Task",
            "search": {"strategy": strategy, "space": task.space or SPACE},
            "objective": {"metric": metric},
            "scheduler": {"name": "asha", "reduction_factor": 3, **settings},
            "num_samples": trials,
            "max_concurrent": task.limit,
            "resources": {"gpus": 1},
            "name": "simulated",
        }
    )
    rule = Brackets(AshaSettings(reduction_factor=3, **settings))
    rng = np.random.default_rng((seed, 98))
    running = []
    begun = 0
    now = 0.0
    events = [{"event": "experiment_started", "time": 0.0, "resumed": False}]
    spent = 0
    while (begun < trials or running) and spent < budget:
        while begun < trials and len(running) < task.workers:
            config = searcher.ask(begun)
            trial_id = f"{begun:05}"
            start = now + (task.gap if begun >= task.workers else 0.0)
            started = {"event": "trial_started", "time": start, "trial_id": trial_id}
            events.append({**started, "config": config})
            curve = task.curve(config, (seed, begun))
            heapq.heappush(running, (start + rng.lognormal(0, 0.2), begun, 1, curve))
            begun += 1
        now, number, epoch, curve = heapq.heappop(running)
        spent += 1
        trial = {"time": now, "trial_id": f"{number:05}"}
        if not np.isfinite(curve[epoch - 1][metric]):
            error = {"kind": "nan", "message": "the objective is NaN"}
            events.append(
                {"event": "trial_ended", **trial, "status": "failed", "error": error}
            )
            searcher.tell(number, 1e3, epoch)
            continue
        events.append(
            {"event": "result", **trial, "epoch": epoch, "metrics": curve[epoch - 1]}
        )
        cost = sign * curve[epoch - 1][metric]
        goes_on = rule.goes_on(trial["trial_id"], epoch, cost)
        if goes_on and epoch < task.length:
            searcher.report(number, cost, epoch)
            heapq.heappush(
                running, (now + rng.lognormal(0, 0.2), number, epoch + 1, curve)
            )
            continue
        searcher.tell(number, cost, epoch)
        status = "completed" if epoch == task.length else "stopped"
        events.append({"event": "trial_ended", **trial, "status": status})
    for _, number, *_ in running:
        trial = {"time": now, "trial_id": f"{number:05}"}
        events.append({"event": "trial_ended", **trial, "status": "stopped"})
    events.append({"event": "experiment_ended", "time": now, "status": "completed"})
    events.sort(key=lambda event: event["time"])
    validation = None
    if task.images:
        validation = {
            "images": task.images,
            "copies": task.copies,
            "measured": 2 * task.images,
        }
    return SearchRecord("simulated", spec, fold(events, spec.objective), validation)


class Rising:
    """A search whose trials get better and better."""

    def __init__(self, searcher, task, trials):
        self.configs = sorted(
            map(searcher.ask, range(trials)), key=task.regret, reverse=True
        )

    def ask(self, number):
        return self.configs[number]

    def report(self, number, value, epoch):
        """Learns nothing."""

    tell = report


@dataclass(frozen=True)
class Sought:
    """What `method` needs of a task."""

    space: dict


def findings_of(fault, strategy, trials, seed):
    """(the findings on one search with a fault, or without (None); the hyperparameter)."""
    names = [None, *FAULTS]
    task, name = drawn(np.random.default_rng((seed, names.index(fault))), fault)
    searcher = method(strategy, Sought(task.space or SPACE), seed, task.length)
    if task.rises:
        searcher = Rising(searcher, task, trials)
    return advise(simulated(task, searcher, trials, seed, strategy=strategy)), name


def hits(findings, kind, name):
    """Whether a finding is of this kind, and about this hyperparameter if there is one."""
    about = ("hyperparameter", "hyperparameters", "rule")
    for finding in findings:
        if finding.kind == kind and finding.severity != "open":
            named = [
                str(finding.figures[key]) for key in about if key in finding.figures
            ]
            if name is None or any(name in text for text in named):
                return True
    return False


def applied(findings, space):
    """The space after what the findings on domains say."""
    about = [f.figures for f in findings if f.kind in ("edge", "wasted")]
    return {
        **space,
        **{figures["hyperparameter"]: figures["domain"] for figures in about},
    }


def begun_with(record, searcher, space):
    """The searcher, with the trials of an earlier search as `--from` gives them."""
    encoding = Encoding(parse_space(space))
    trials = []
    for trial, cost in zip(record.trials, record.cost_N, strict=True):
        with suppress(FaultsError):  # outside of the new space
            encoding.encode(trial.config)
            failed = not np.isfinite(cost)
            values = tuple(record.curve(trial))
            trials.append(
                WarmTrial(trial.trial_id, trial.config, values, failed, tried=True)
            )
    WarmStart("earlier", tuple(trials), ()).apply(searcher.search)
    return searcher


def regrets_of(fault, strategy, trials, seed):
    """(regrets of the best trial: in the wrong space, as advised, in the right space; is advised).

    All spend equally many epochs, four for each of `trials`. As advised is half of them in the
    wrong space and half after the advice, or a search that goes on if there is none.
    """
    task, _ = drawn(np.random.default_rng((seed, [None, *FAULTS].index(fault))), fault)
    budget = 4 * trials
    right = replace(task, space=None)

    def search(task, budget, seed, earlier=None):
        space = task.space or SPACE
        searcher = method(strategy, Sought(space), seed, task.length)
        if earlier:
            searcher = begun_with(earlier, searcher, space)
        return simulated(task, searcher, budget, seed, strategy=strategy, budget=budget)

    def best(record):
        first = record.order_N[0]
        return record.cost_N[first], task.regret(record.trials[first].config)

    wrong = best(search(task, budget, seed))[1]
    half = search(task, budget // 2, seed)
    space = applied(advise(half), task.space)
    advised = wrong
    if space != task.space:
        second = search(replace(task, space=space), budget // 2, seed + 500_000, half)
        advised = min(best(half), best(second))[1]
    return wrong, advised, best(search(right, budget, seed))[1], space != task.space


def show_regrets(strategy, trials, seeds):
    """The regrets of spaces cut wrongly, with and without advice after half the budget."""
    print(
        f"{strategy}, {4 * trials} epochs: mean regret in the wrong, advised and right space"
    )
    rows = {f: [regrets_of(f, strategy, trials, seed) for seed in seeds] for f in CUT}
    for fault, values in (*rows.items(), ("both", [*chain(*rows.values())])):
        values, n = np.array(values, dtype=float), len(values)
        rows_B = np.random.default_rng(0).integers(n, size=(2000, n))
        wrong_B, advised_B, *_ = values[rows_B].mean(axis=1).T
        low, high = np.quantile(advised_B / wrong_B, [0.025, 0.975])
        wrong, advised, right, _ = values.mean(axis=0)
        print(f"  {fault:10} n {n:4}  {wrong:.4f} {advised:.4f} {right:.4f}", end="  ")
        print(f"ratio {advised / wrong:.2f} [{low:.2f}, {high:.2f}]", end="  ")
        print(f"advised {shown(values[:, 3].sum(), n)}", flush=True)


def shown(count, n):
    low, high = wilson(count / n, n)
    return f"{int(count):4} of {n:4}  {100 * count / n:5.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def show_synthetic(strategy, trials, seeds, faults):
    print(f"{strategy}, {trials} trials, synthetic tasks")
    alarms = 0
    kinds = Counter()
    for seed in seeds:
        raised = {
            f.kind
            for f in findings_of(None, strategy, trials, seed)[0]
            if f.severity != "open"
        }
        alarms += bool(raised)
        kinds.update(raised)
    print(f"  {'sound: alarms':16} {shown(alarms, len(seeds))}  {dict(kinds) or ''}")
    for fault in faults:
        hit = 0
        others = Counter()
        for seed in seeds:
            findings, name = findings_of(fault, strategy, trials, seed)
            hit += hits(findings, FAULTS[fault], name)
            others.update(
                {f.kind for f in findings if f.severity != "open"} - {FAULTS[fault]}
            )
        print(
            f"  {fault:16} {shown(hit, len(seeds))}  {dict(others) or ''}", flush=True
        )


def edges_of(recorded, window, trials, seeds):
    """(how many searches, those with each edge of the learning rate, other findings)."""
    count = 0
    sides = Counter()
    others = Counter()
    for seed in seeds:
        task = Table(recorded, *window, np.random.default_rng((seed, 7)))
        if len(task.rows) < trials:
            continue
        count += 1
        findings = advise(simulated(task, task, trials, seed))
        others.update({f.kind for f in findings if f.severity != "open"} - {"edge"})
        for finding in findings:
            if (
                finding.kind == "edge"
                and finding.figures["hyperparameter"] == recorded.lr
            ):
                sides[finding.figures["side"]] += 1
    return count, sides, others


def show_edges(what, count, sides, others):
    edges = (
        f"{side} {shown(sides[side], count)}" for side in ("lower", "upper") if count
    )
    print(f"  {what:26}", *edges, dict(others) or "", flush=True)


def show_tables(tables, trials, seeds):
    """Domains of the learning rate that are cut at the best value's side, or not."""
    for recorded in map(Recorded.table, tables):
        leading = np.argsort(recorded.loss_NE.min(axis=1))[
            : len(recorded.loss_NE) // 20
        ]
        low, high = np.quantile(recorded.lr_N[leading], [0.02, 0.98])
        windows = {
            "whole": (max(low - 0.2, 0), min(high + 0.2, 1)),
            "cut above": (0.0, low - 0.02),
            "cut below": (min(high + 0.02, 0.85), 1.0),
        }
        lr = f"the best twentieth: {low:.2f} to {high:.2f} of lr"
        print(f"table {recorded.name}, {trials} trials; {lr}")
        for what, window in windows.items():
            name = f"{what} {window[0]:.2f} to {window[1]:.2f}"
            show_edges(name, *edges_of(recorded, window, trials, seeds))


def show_lcbench(folder, trials, seeds):
    """All tuning tasks together. A cut counts where it makes the best tenth of configs worse."""
    totals = {}
    for task in lcbench.SPLITS["tuning"]:
        recorded = Recorded.lcbench(folder, task)
        best_N = recorded.loss_NE.min(axis=1)
        level = np.quantile(best_N, 0.1)
        for what, (low, high) in {
            "whole": (0, 1),
            "above": (0, 0.45),
            "below": (0.55, 1),
        }.items():
            inside = best_N[(recorded.lr_N >= low) & (recorded.lr_N <= high)]
            if what == "whole" or np.quantile(inside, 0.1) > WORSE * level:
                searches = edges_of(recorded, (low, high), trials, seeds)
                totals.setdefault(what, []).append(searches)
    print(
        f"LCBench, {trials} trials of each search, {len(seeds)} searches of each task"
    )
    for what, rows in totals.items():
        counts, sides, others = zip(*rows, strict=True)
        show_edges(
            f"{what}, {len(rows)} tasks",
            sum(counts),
            sum(sides, Counter()),
            sum(others, Counter()),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=sorted(TABLES), default="claims")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--searches", type=int, default=200, help="of each kind")
    parser.add_argument("--strategies", default="random,bayesopt")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--regret", action="store_true", help="of spaces that were cut wrongly"
    )
    parser.add_argument(
        "--lcbench", type=Path, help="of benchmarks.search_curves; nothing else"
    )
    parser.add_argument("--first-seed", type=int, help="unless set that of the split")
    arguments = parser.parse_args()
    count = 3 if arguments.quick else arguments.searches
    first = (
        FIRST_SEED[arguments.split]
        if arguments.first_seed is None
        else arguments.first_seed
    )
    if arguments.lcbench:
        tasks = len(lcbench.SPLITS["tuning"])
        seeds = range(first, first + max(1, count // tasks))
        show_lcbench(arguments.lcbench, min(arguments.trials, 80), seeds)
        return
    for strategy in arguments.strategies.split(","):
        seeds = range(
            first, first + (count if strategy == "random" else max(count // 4, 3))
        )
        if arguments.regret:
            show_regrets(strategy, arguments.trials, seeds)
        else:
            show_synthetic(
                strategy, arguments.trials, seeds, arguments.faults.split(",")
            )
    if arguments.regret:
        return
    show_tables(
        TABLES[arguments.split], min(arguments.trials, 80), range(first, first + count)
    )


if __name__ == "__main__":
    main()
