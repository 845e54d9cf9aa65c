"""What it costs a search that a power cut loses only its last seconds.

    python -m benchmarks.durability [--rounds 10] [--trials 24] [--storage DIR]

The digits search with short epochs runs as it is, and with `os.fsync` of the driver and its workers
doing nothing. Both are whole commands, and they take turns; of each pair the ratio of the wall
times, and of the CPU times of the command and of what it waited for, is taken. Prints the median of
the ratios with its range, and how often the disk was asked. DIR says which disk; by default it is
that of the temporary folder.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR = 1.02
_COUNT = "TUNER_BENCHMARK_FSYNCS"  # in the environment: the file to which each call adds a byte
_SITE = """
import os
real = os.fsync
def fsync(fd):
    with open(os.environ["{count}"], "ab") as file:
        file.write(b".")
    return {does}
os.fsync = fsync
"""


def search(folder: Path, number: int, trials: int, *, synced: bool) -> tuple[float, float, int]:
    """(wall s, CPU s, calls of fsync) of one search."""
    place = folder / f"{number}-{synced}"
    place.mkdir()
    does = "real(fd)" if synced else "None"
    (place / "sitecustomize.py").write_text(_SITE.format(count=_COUNT, does=does))
    counted = place / "fsyncs"
    counted.touch()
    path = os.pathsep.join([str(place), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, _COUNT: str(counted)}
    words = ["run", "digits", "--num-samples", str(trials), "--no-evaluate"]
    command = [sys.executable, "-m", "tuner", *words, "--storage", str(place / "results")]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, counted.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--storage", type=Path)
    options = parser.parse_args()
    wall, cpu, calls = [], [], []
    with tempfile.TemporaryDirectory(dir=options.storage, prefix="durability-") as folder:
        for number in range(options.rounds):
            order = (True, False) if number % 2 else (False, True)
            one = {s: search(Path(folder), number, options.trials, synced=s) for s in order}
            wall.append(one[True][0] / one[False][0])
            cpu.append(one[True][1] / one[False][1])
            calls.append(one[True][2])
            print(f"{number}: wall {wall[-1]:.3f}, CPU {cpu[-1]:.3f}", file=sys.stderr, flush=True)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, n = {options.rounds} pairs")
    for name, ratios in (("wall", wall), ("CPU", cpu)):
        least, most = min(ratios), max(ratios)
        median = statistics.median(ratios)
        print(f"{name}: {median:.3f} of that without ({least:.3f} to {most:.3f}); bar {BAR}")
    print(f"the disk was asked {statistics.median(calls):.0f} times a search")
    return int(statistics.median(wall) > BAR)


if __name__ == "__main__":
    sys.exit(main())
