"""How often early stopping loses the best of few trials, on real learning curves; what it saves.

    python -m benchmarks.few_trials                   our own tables, 2 minutes of a core
    python -m benchmarks.few_trials --lcbench FOLDER  LCBench's tasks, too (`search_curves`)
    python -m benchmarks.few_trials --quick           a small run: shows that it works

Random configs of a table train with four simulated asynchronous workers; trials differ in speed, so
who reports first is chance. A line is of ASHA from epoch 1, of ASHA with tuner's default for so
many trials (`GraceSettings.settled`), or of `forecast` with its default. "lost" is how often the
best value that was seen is not the best that the same trials reach when none is stopped; "worse"
the geometric mean of the ratio of the two; "epochs" the share of all epochs that were trained. +-
is the half width of the 95 % interval.
"""

import argparse
import heapq
import sys
from pathlib import Path

import numpy as np

from benchmarks.asynchronous import WORKERS
from benchmarks.learning_curves import SPACES, load_table
from tuner.search.schedulers._stopping import Forecasts
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.search.schedulers.forecast import ForecastSettings
from tuner.spec.sections import Objective

COUNTS = (4, 8, 9, 12, 16, 24, 32, 48, 64, 100)
POOL = 300  # configs of each of LCBench's tasks, from which trials are drawn


def own_tables():
    """Losses of the configs of our own tables, clipped where they diverged."""
    return [np.clip(load_table(name)[1], 1e-3, 1e2) for name in sorted(SPACES)]


def lcbench_tables(folder, split):
    """Errors of random configs on LCBench's tasks."""
    from benchmarks.search_curves import SPACE, SPLITS, curve_of
    from tuner.spec.space.parsing import parse_space

    space, rng = parse_space(SPACE), np.random.default_rng(7)
    draws = ({name: d.at(rng.random()) for name, d in space.items()} for _ in range(POOL))
    configs = list(draws)
    tasks = SPLITS[split]
    return [np.array([curve_of(folder, task, config) for config in configs]) for task in tasks]


def rule_of(settings):
    """What stops trials by these settings."""
    if isinstance(settings, AshaSettings):
        return Brackets(settings)
    objective = Objective(metric="loss", mode="min")
    grace, peers = settings.grace_period, settings.peers
    return Forecasts(objective, max_t=settings.max_t, grace=grace, peers=peers)


def search(loss_NE, settings, rng):
    """(the best loss that was seen, epochs trained) of N trials."""
    count, length = loss_NE.shape
    rule, pace_N = rule_of(settings), rng.lognormal(0, 0.3, count)
    running, started, epochs, best = [], 0, 0, np.inf
    now = 0.0
    while started < count or running:
        while started < count and len(running) < WORKERS:
            heapq.heappush(running, (now + pace_N[started] * rng.lognormal(0, 0.1), started, 1))
            started += 1
        now, trial, epoch = heapq.heappop(running)
        loss, epochs = float(loss_NE[trial, epoch - 1]), epochs + 1
        best = min(best, loss)
        if rule.goes_on(str(trial), epoch, loss) and epoch < length:
            after = now + pace_N[trial] * rng.lognormal(0, 0.1)
            heapq.heappush(running, (after, trial, epoch + 1))
    return best, epochs


def line(tables, count, settings, seeds):
    """What the settings lose and save over all tables and seeds, in words."""
    lost, ratio, share = [], [], []
    for number, loss_NE in enumerate(tables):
        for seed in seeds:
            rng = np.random.default_rng((number, seed, count))
            drawn = loss_NE[rng.choice(len(loss_NE), count, replace=False)]
            best, epochs = search(drawn, settings, rng)
            lost.append(best > drawn.min())
            ratio.append(np.log(best / drawn.min()))
            share.append(epochs / drawn.size)
    p = np.mean(lost)
    width = 1.96 * np.sqrt(p * (1 - p) / len(lost))
    return (
        f"{100 * p:4.0f} % +- {100 * width:2.0f} lost, {np.exp(np.mean(ratio)):5.3f} worse, "
        f"{100 * np.mean(share):3.0f} % of epochs"
    )


def show(name, tables, counts, factor, seeds):
    length = tables[0].shape[1]
    print(f"{name}: {len(tables)} tables x {len(seeds)} seeds, {length} epochs, 1 in {factor:g}")
    for count in counts:
        open_ = AshaSettings(max_t=length, reduction_factor=factor)
        for what, settings in (
            ("first rung at 1", open_.model_copy(update={"grace_period": 1})),
            ("default", open_.settled(count)),
            ("forecast", ForecastSettings(max_t=length).settled(count)),
        ):
            first = f"{settings.rungs()[0]:g}" if settings.rungs() else "none"
            found = line(tables, count, settings, seeds)
            print(f"  {count:3} trials, {what + f' ({first})':20} {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lcbench", type=Path, help="the folder of benchmarks.search_curves")
    parser.add_argument("--split", choices=("claims", "tuning"), default="claims")
    parser.add_argument("--reduction-factor", type=float, default=3)
    parser.add_argument("--seeds", type=int, default=50, help="for each of our tables")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    counts, count = ((8, 16), 2) if arguments.quick else (COUNTS, arguments.seeds)
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    factor = arguments.reduction_factor
    show("own", own_tables(), counts, factor, seeds)
    if arguments.lcbench:
        tables = lcbench_tables(arguments.lcbench, arguments.split)
        seeds = seeds[: max(count // 5, 1)]
        print(f"LCBench, {arguments.split} tasks", file=sys.stderr)
        show("lcbench", [loss_NE[:, :10] for loss_NE in tables], counts, factor, seeds)
        show("lcbench", tables, counts, factor, seeds)


if __name__ == "__main__":
    main()
