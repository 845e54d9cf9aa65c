"""Measures the driver with more trials in flight than memory allows, by simulating the trials.

    python -m benchmarks.in_flight [--in-flight 16 100 1000] [--trials 2000] [--rate 40]

The driver is real, and so are each trial's reservation, its reports and the calls that ask for
them. Only each trial's own process is simulated: two processes answer for all trials. Each trial
sends one report after about IN_FLIGHT / RATE seconds, so that the number of reports per second does
not depend on the number in flight. Prints the driver's CPU time per trial while the maximum number
is in flight, that is without the IN_FLIGHT first and last ends, for the first and the second half
of that time. Also prints the driver's peak memory. Does not show what so many processes cost Ray's
daemons or how long they take to start. For comparison `--real` runs one process per trial.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from importlib.metadata import version
from itertools import count
from pathlib import Path

from benchmarks.scale import metered, spec_of

PLAYERS = 2


class Player:
    """A process that answers for many trials."""

    def __init__(self, report_s):
        self._report_s = report_s
        self._trials = {}

    async def begin(self, number, kwargs):
        self._trials[number] = played()(**kwargs)

    async def call(self, number, method, args, kwargs):
        if method.startswith("__ray"):  # whether it has started, and to end
            return True
        if method == "train":
            await asyncio.sleep(self._report_s * random.uniform(0.5, 1.5))
        return getattr(self._trials[number], method)(*args, **kwargs)


def played():
    """The class of trials that report once, in the form of ours."""
    from ray.tune import Trainable

    from tuner.trial.trainable import REPORT

    class Played(Trainable):
        def reset_config(self, new_config):
            return True

        def step(self):
            metrics = {"loss": self.config["config"]["x"]}
            return {
                **metrics,
                "done": True,
                REPORT: {"metrics": metrics, "checkpoints": [], "is_saved": True},
            }

    return Played


class Cast:
    """What Tune takes for the class of an actor, each of which is a number that a player knows."""

    def __init__(self, players):
        self._players = players
        self._numbers = count()

    @property
    def __class__(self):
        from ray.actor import ActorClass

        return ActorClass

    def options(self, **reservation):
        return self

    def remote(self, **kwargs):
        number = next(self._numbers)
        player = self._players[number % len(self._players)]
        player.begin.remote(number, kwargs)
        return Part(player, number)


class Part:
    """What Tune takes for the handle of an actor."""

    def __init__(self, player, number):
        self._player, self._number = player, number

    def __getattr__(self, method):
        return Call(self._player, self._number, method)


class Call:
    """One method of it."""

    def __init__(self, *of):
        self._player, *self._of = of

    def remote(self, *args, **kwargs):
        return self._player.call.remote(*self._of, args, kwargs)


def waits(config):
    """A trial of a process of its own that reports after its time."""
    import time

    from ray import tune

    time.sleep(config["report_s"] * random.uniform(0.5, 1.5))
    tune.report({"loss": config["x"]})


def searched(trials, in_flight, report_s, real, folder):
    """The figures of a search."""
    import ray

    from tuner.cluster import connect as cluster

    spec = spec_of("benchmarks.in_flight:waits", {"report_s": report_s}, trials, in_flight, folder)
    with cluster.connect(spec=spec) if real else cluster.connect():
        if not real:
            remote = ray.remote(num_cpus=0, max_concurrency=10_000)(Player)
            cast = Cast([remote.remote(report_s) for _ in range(PLAYERS)])
            ray.remote = lambda trainable: cast  # what Tune is made to ask for its actors
        return steady(metered(spec).notes, in_flight)


def steady(notes, in_flight):
    """Milliseconds of CPU a trial, in all and in both halves, trials a second, bytes of memory.

    Of the trials that ended while as many were in flight as may be.
    """
    first, last = in_flight, len(notes) - 1 - in_flight
    middle = (first + last) // 2
    cpu, memory, clock = zip(*notes, strict=True)

    def a_trial(start, stop):
        return 1000 * (cpu[stop] - cpu[start]) / (stop - start)

    return {
        "trials": last - first,
        "cpu_ms": a_trial(first, last),
        "first_ms": a_trial(first, middle),
        "second_ms": a_trial(middle, last),
        "trials_a_second": (last - first) / (clock[last] - clock[first]),
        "most_bytes": max(memory),
    }


def measured(trials, in_flight, report_s, real):
    """The figures of a search in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="in-flight-") as folder:
        command = [sys.executable, "-m", "benchmarks.in_flight", "--folder", folder]
        command += ["--trials", str(trials + 2 * in_flight), "--in-flight", str(in_flight)]
        command += ["--report-s", str(report_s), *(["--real"] if real else [])]
        said = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True)
    return json.loads(said.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[16, 100, 1000])
    parser.add_argument("--trials", type=int, default=2000, help="beside the first and the last")
    parser.add_argument("--rate", type=float, default=40, help="reports a second")
    parser.add_argument("--real", action="store_true", help="a process a trial")
    parser.add_argument("--report-s", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        [in_flight], folder = options.in_flight, options.folder.resolve()
        run = searched(options.trials, in_flight, options.report_s, options.real, folder)
        print(json.dumps(run))
        return
    print(f"Python {platform.python_version()}, Ray {version('ray')}, {os.cpu_count()} cores")
    heads = ("in flight", "trials", "CPU ms", "1st half", "2nd half", "a second", "driver MB")
    print(*(f"{head:>10}" for head in heads))
    for in_flight in options.in_flight:
        got = measured(options.trials, in_flight, in_flight / options.rate, options.real)
        print(
            f"{in_flight:10} {got['trials']:10} {got['cpu_ms']:10.1f} {got['first_ms']:10.1f} "
            f"{got['second_ms']:10.1f} {got['trials_a_second']:10.1f} "
            f"{got['most_bytes'] / 1e6:10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
