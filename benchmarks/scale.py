"""What one driver can handle: trials that report at once, so that only the driver's work is left.

    python -m benchmarks.scale [--trials 10000] [--plain-trials 1500] [--in-flight 16] [--epochs 1]

Runs the same random search with tuner and with plain `tune.run` with reuse_actors, one after the
other. Each runs in a process of its own with a Ray of its own, whose CPUs are divided so that
`--in-flight` trials run at a time. Each trial reports once per epoch. Prints the driver's CPU time
per trial: of all trials, of the first thousand and of the last thousand. Also prints the same per
report, the growth of the driver's memory per trial after the first thousand, trials per second, and
the largest number of trial processes with the memory of one (PSS). Plain `tune.run` has its default
settings, except for its output. A run ends early, without figures, if the machine has less than
--keep GiB left.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import psutil

BLOCK = 1000  # trials, of which the first and the last are compared
SIDES = ("tuner", "tune.run")
WATCH_EVERY_S = 10


def instantly(config):
    """A trial that has nothing to do."""
    from ray import tune

    for epoch in range(config["epochs"]):
        tune.report({"loss": config["x"] / (1 + epoch)})


class Meter:
    """Notes at each trial's end what the driver has taken so far."""

    def __init__(self):
        self._process = psutil.Process()
        self.notes = [self._note()]

    def _note(self):
        return time.process_time(), self._process.memory_info().rss, time.monotonic()

    def tick(self):
        self.notes.append(self._note())

    def figures(self):
        """Milliseconds of CPU a trial, bytes of memory a trial, trials a second."""
        cpu, memory, clock = zip(*self.notes, strict=True)
        count = len(cpu) - 1
        block = min(BLOCK, count // 3)

        def a_trial(first, last):
            return 1000 * (cpu[last] - cpu[first]) / (last - first)

        return {
            "trials": count,
            "cpu_ms": a_trial(1, count),
            "first_ms": a_trial(1, block),
            "last_ms": a_trial(count - block, count),
            "bytes": (memory[count] - memory[block]) / (count - block),
            "trials_a_second": (count - 1) / (clock[count] - clock[1]),
        }


def by_tuner(trials, in_flight, epochs, folder):
    """The figures of a search by tuner."""
    from tuner.cluster import connect as cluster

    spec = spec_of(
        "benchmarks.scale:instantly", {"epochs": epochs}, trials, in_flight, folder
    )
    with cluster.connect(spec=spec):
        return metered(spec).figures()


def spec_of(trainable, constants, trials, in_flight, folder):
    """A random search of so many trials at a time, whose configs have the `constants`, too."""
    from tuner.spec.experiment import build_spec

    return build_spec(
        {
            "name": "scale",
            "trainable": trainable,
            "search": {"space": {"x": "uniform(0, 1)", **constants}},
            "objective": {"metric": "loss", "mode": "min"},
            "scheduler": "none",
            "num_samples": trials,
            "resources": {"cpus": share(in_flight)},
            "storage": str(folder),
        }
    )


def metered(spec):
    """Search as `spec` says on the connected Ray; a Meter that has ticked at each trial's end."""
    from tuner.search.driver import Driver
    from tuner.search.run import run_experiment

    meter = Meter()
    end = Driver.end

    def timed(self, *arguments, **named):
        end(self, *arguments, **named)
        meter.tick()

    Driver.end = timed
    run_experiment(spec)
    return meter


def by_tune(trials, in_flight, epochs, folder):
    """The figures of plain `tune.run`."""
    import ray
    from ray import tune

    ray.init(
        address="local",
        num_cpus=len(os.sched_getaffinity(0)),
        object_store_memory=256 << 20,
        include_dashboard=False,
        log_to_driver=False,
    )
    meter = Meter()

    class Ticking(tune.Callback):
        def on_trial_complete(self, *arguments, **named):
            meter.tick()

    tune.run(
        instantly,
        config={"x": tune.uniform(0, 1), "epochs": epochs},
        metric="loss",
        mode="min",
        num_samples=trials,
        resources_per_trial={"cpu": share(in_flight)},
        max_concurrent_trials=in_flight,
        reuse_actors=True,
        storage_path=str(folder),
        callbacks=[Ticking()],
        verbose=0,
    )
    ray.shutdown()
    return meter.figures()


def share(in_flight):
    """The CPUs of a trial with which so many run at a time here."""
    return int(1000 * len(os.sched_getaffinity(0)) / in_flight) / 1000


def measured(side, trials, options):
    """The figures of one side, from a process of its own; None where memory became scarce."""
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        command = [
            sys.executable,
            "-m",
            "benchmarks.scale",
            "--side",
            side,
            "--folder",
            folder,
        ]
        command += ["--trials", str(trials), "--in-flight", str(options.in_flight)]
        command += ["--epochs", str(options.epochs)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        most, scarce = watch(process, options.keep << 30)
        said, _ = process.communicate()
    if scarce or process.returncode:
        print(
            f"{side:10} ended early, {'short of memory' if scarce else process.returncode}"
        )
        return None
    return {**json.loads(said.splitlines()[-1]), **most}


def watch(process, keep):
    """How many workers of `process` had most memory at a time, their mean PSS; was it ended.

    It is ended where the machine has less than `keep` bytes left.
    """
    most = {"workers": 0, "pss": 0.0}
    while process.poll() is None:
        if psutil.virtual_memory().available < keep:
            process.terminate()  # the search ends its trials and its Ray
            return most, True
        sizes = [pss for each in workers_of(process.pid) if (pss := pss_of(each))]
        if sum(sizes) > most["workers"] * most["pss"]:
            most = {"workers": len(sizes), "pss": sum(sizes) / len(sizes)}
        time.sleep(WATCH_EVERY_S)
    return most, False


def workers_of(pid):
    """The processes below `pid` that run trials."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [each for each in below if told(each.name, "").startswith("ray::")]


def pss_of(process):
    """The bytes of memory of `process`, shared ones in proportion."""
    memory = told(process.memory_full_info, None)
    return memory.pss if memory else 0


def told(ask, otherwise):
    """What a process tells of itself; `otherwise` where it has ended."""
    try:
        return ask()
    except psutil.Error:
        return otherwise


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument(
        "--plain-trials", type=int, default=1500, help="of tune.run, which is slow"
    )
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=1, help="reports of each trial")
    parser.add_argument(
        "--keep", type=int, default=6, metavar="GIB", help="of memory to leave"
    )
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run = by_tuner if options.side == "tuner" else by_tune
        folder = options.folder.resolve()
        print(
            json.dumps(run(options.trials, options.in_flight, options.epochs, folder))
        )
        return
    print(
        f"Python {platform.python_version()}, Ray {version('ray')}, {os.cpu_count()} cores"
    )
    print(f"{options.in_flight} trials at a time, {options.epochs} reports each")
    heads = (
        "trials",
        "CPU ms",
        "first",
        "last",
        "last/first",
        "a report",
        "KB",
        "a second",
    )
    print(f"{'':10}", *(f"{head:>10}" for head in (*heads, "processes", "MB each")))
    for side, trials in zip(SIDES, (options.trials, options.plain_trials), strict=True):
        if not trials:
            continue
        got = measured(side, trials, options)
        if got is None:
            continue
        ratio = got["last_ms"] / got["first_ms"]
        print(
            f"{side:10} {got['trials']:10} {got['cpu_ms']:10.1f} {got['first_ms']:10.1f} "
            f"{got['last_ms']:10.1f} {ratio:10.2f} "
            f"{got['cpu_ms'] / options.epochs:10.2f} {got['bytes'] / 1000:10.1f} "
            f"{got['trials_a_second']:10.1f} {got['workers']:10} {got['pss'] / 1e6:10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
