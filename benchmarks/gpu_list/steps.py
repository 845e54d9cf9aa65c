"""The steps of the list, and the process that runs one of them: see `benchmarks.gpu_list`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import NamedTuple

ROW = "row: "  # begins a line of a step's output that belongs to the table


class Step(NamedTuple):
    """A function `name` of a module of this package, which yields (what, result)."""

    title: str
    module: str
    name: str
    limit_s: int


STEPS = {
    1: Step("one step of every network", "training", "every_network", 300),
    2: Step("the `gpu` tests", "steps", "tests", 300),
    3: Step("float64 against the CPU", "training", "against_the_cpu", 120),
    4: Step("a profile of 20 steps", "training", "profile", 120),
    5: Step("`benchmarks.gpu`", "steps", "benchmark", 480),
    6: Step("the loop of airbench94", "airbench", "compared", 180),
    7: Step("two ranks on one GPU", "processes", "two_ranks", 180),
    8: Step("faults", "processes", "faults", 180),
    9: Step("compiled in ten widths", "training", "ten_widths", 240),
    10: Step("a search, four trials on the GPU", "processes", "search", 180),
    11: Step(
        "trials that share the GPU, with and without MPS", "sharing", "sharing", 180
    ),
    12: Step("two searches of a queue on the GPU", "processes", "queue", 120),
}


def of_row(line):
    """(what, result) of a line that begins with `ROW`."""
    what, result = json.loads(line.removeprefix(ROW))
    return what, result


def tests(device, dry):
    """The tests that are marked `gpu`; on a dry run they are only found."""
    more = ["--collect-only"] if dry else ["-rs"]
    places = ["tests/vision", "tests/trial", "tests/test_cifar10_speednet.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        *more,
        *places,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    yield "tests", done.stdout.strip().splitlines()[-1]
    if done.returncode:
        raise SystemExit(done.returncode)


def benchmark(device, dry):
    """The lines that benchmarks.gpu prints."""
    command = [sys.executable, "-m", "benchmarks.gpu", *(["--quick"] if dry else [])]
    heading = ""
    before = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            what, colon, result = line.strip().rpartition(": ")
            if line.startswith("  ") and colon:
                yield f"{heading}: {what}", result
            elif not before:  # not what a learner prints in between
                heading = line.strip() or heading
            before = line.strip()
    if process.returncode:
        raise SystemExit(process.returncode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, choices=STEPS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args()
    from importlib import import_module

    step = STEPS[given.number]
    work = getattr(import_module(f"benchmarks.gpu_list.{step.module}"), step.name)
    for row in work(given.device, given.dry):
        print(ROW + json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
