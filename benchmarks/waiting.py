"""How long free slots wait for a suggestion, and how long a suggestion blocks the driver.

    python -m benchmarks.waiting                   64 slots, each strategy for 100 s
    python -m benchmarks.waiting --ray --slots 8   real trials: needs a process for each slot
    python -m benchmarks.waiting --quick           a small run: shows that it works, proves nothing

Trials take 10 s each, plus or minus a quarter, and report five times. They begin within one trial's
duration of each other, as in a search that has run for a while. The searchers, the thread in which
they compute, and `TrialQueue` are real and use the real clock. Without --ray the trials are
simulated (they are times in a list, so they use no CPU). So is Tune's loop, which checks every
0.1 s for ended trials and for free slots. With --ray it is a whole `run_experiment` whose trials
sleep.

A slot waits while it is free and the strategy has replied that it is not ready yet. The aim is to
wait at most 1 % of the slots' time.
"""

import argparse
import heapq
import math
import os
import platform
import random
import tempfile
import time
from itertools import pairwise

from tuner.search.trial_queue import TrialQueue

STRATEGIES = ("random", "hyperopt", "bohb", "bayesopt")
SPACE = {
    "lr": "loguniform(1e-4, 10)",
    "momentum": "uniform(0, 0.99)",
    "weight_decay": "loguniform(1e-7, 0.5)",
    "batch_size": "choice([16, 32, 64, 128])",
    "width": "choice([8, 16, 32])",
}
TRIAL_S, EPOCHS, POLL_S = 10.0, 5, 0.1


class Timed:
    """A strategy, with a note of each time that it gave a config, did not, or saw a trial end."""

    def __init__(self, strategy):
        self.strategy, self.notes, self.longest = strategy, [], 0.0

    def __getattr__(self, name):
        return getattr(self.strategy, name)

    def suggest(self, trial_id):
        asked = time.monotonic()
        config = self.strategy.suggest(trial_id)
        now = time.monotonic()
        self.longest = max(self.longest, now - asked)
        if not isinstance(config, str):
            self.notes.append((now, "not ready" if config is None else "given"))
        return config

    def on_trial_complete(self, trial_id, *arguments, **named):
        self.notes.append((time.monotonic(), "ended"))
        self.strategy.on_trial_complete(trial_id, *arguments, **named)


def waited(notes, slots):
    """(slot-seconds spent waiting for a suggestion, slot-seconds in all), of notes in order.

    It is counted from the first note to the last. A slot is free from a trial's end until the next
    is given; it waits from the moment that the strategy says "not ready".
    """
    waiting_s, live, not_ready = 0.0, 0, False
    for (now, kind), (later, _) in pairwise(notes):
        live += {"given": 1, "ended": -1}.get(kind, 0)
        if kind != "ended":
            not_ready = kind == "not ready"
        waiting_s += (later - now) * max(slots - live, 0) * not_ready
    return waiting_s, slots * (notes[-1][0] - notes[0][0]) if notes else 0.0


def loss(config, epoch):
    """Smooth in the config, falling with the epochs."""
    away = (math.log10(config["lr"]) + 1) ** 2 + (config["momentum"] - 0.8) ** 2
    return away + 0.1 * math.log10(config["weight_decay"]) ** 2 / 9 + 1 / epoch


def simulated(strategy, slots, seconds):
    """Run sleeping trials that do not exist for so long."""
    queue = TrialQueue(strategy, total=None, limit=lambda: slots)
    rng = random.Random(0)
    # epochs that are going on: (end, trial, epoch, config, length)
    going_on, asked, started = [], 0, time.monotonic()
    while time.monotonic() < started + seconds:
        now = time.monotonic()
        while going_on and going_on[0][0] <= now:
            end, trial, epoch, config, length = heapq.heappop(going_on)
            result = {"loss": loss(config, epoch), "training_iteration": epoch}
            if epoch == EPOCHS:
                queue.leave(trial, result, failed=False)
            else:
                queue.report(trial, result)
                heapq.heappush(going_on, (end + length, trial, epoch + 1, config, length))
        while len(going_on) < slots:
            assignment = queue.next()
            if assignment is None:
                break
            length = TRIAL_S / EPOCHS * rng.uniform(0.75, 1.25)
            if asked < slots:  # as if they had begun at any time before
                length *= (asked + 1) / slots
            end = time.monotonic() + length
            heapq.heappush(going_on, (end, assignment.trial_id, 1, assignment.config, length))
            asked += 1
        time.sleep(POLL_S)


def sleeping_trial(config):
    """A trial that takes its time and uses nothing."""
    from ray import tune

    length = TRIAL_S / EPOCHS * random.uniform(0.75, 1.25)
    for epoch in range(1, EPOCHS + 1):
        time.sleep(length)
        tune.report({"loss": loss(config, epoch)})


def measured(name, slots, seconds, real):
    """(slot-seconds waited, slot-seconds, configs given, seconds of the longest suggest)."""
    from tuner.spec.experiment import build_spec
    from tuner.spec.sections import Objective
    from tuner.spec.strategies import SearchSettings

    spec = build_spec(
        {
            "name": "waiting",
            "trainable": "benchmarks.waiting:sleeping_trial",
            "search": {"strategy": name, "space": SPACE},
            "objective": Objective(metric="loss", mode="min").model_dump(),
            "scheduler": "none",
            "resources": {"cpus": os.cpu_count() / slots},
            "max_concurrent": slots,
            "time_budget_s": seconds,
            "storage": tempfile.mkdtemp() if real else "unused",
        }
    )
    build, made = SearchSettings.build, []

    def timed(*arguments, **named):
        made.append(Timed(build(*arguments, **named)))
        return made[-1]

    if real:
        from tuner.search.run import run_experiment

        SearchSettings.build = timed
        try:
            run_experiment(spec)
        finally:
            SearchSettings.build = build
    else:
        options = {"objective": spec.objective, "max_t": EPOCHS, "slots": slots}
        simulated(timed(spec.search, spec.seed, **options), slots, seconds)
    notes = made[0].notes
    return (*waited(notes, slots), sum(kind == "given" for _, kind in notes), made[0].longest)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ray", action="store_true", help="real trials, by run_experiment")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=100, help="of each strategy")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    arguments = parser.parse_args()
    slots, seconds = (8, 3) if arguments.quick else (arguments.slots, arguments.seconds)
    how = "real" if arguments.ray else "simulated"
    print(f"{slots} slots, {how} trials of {TRIAL_S:.0f} s, {seconds:.0f} s a strategy; ", end="")
    print(f"{os.cpu_count()} CPU cores; Python {platform.python_version()}")
    print(f"{'':12}  trials given  slots' time waiting   longest suggest()")
    for name in arguments.strategies.split(","):
        waiting_s, all_s, given, longest = measured(name, slots, seconds, arguments.ray)
        share = waiting_s / all_s if all_s else 0.0
        print(f"{name:12} {given:13} {share:19.2%} {1000 * longest:15.1f} ms")


if __name__ == "__main__":
    main()
