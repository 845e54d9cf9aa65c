"""What the command line costs before anything runs: CPU seconds of whole processes.

    python -m benchmarks.startup [--runs 10]

The times of `--help` and `validate digits` are those that the operating system reports for the
finished process, once its modules are compiled, as they are after the first run of an installed
tuner; PYTHONDONTWRITEBYTECODE does not count. That `validate` starts no Ray process is checked by
listing the running processes.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
BARS = {("--help",): 0.3, ("validate", "digits"): 3.0}  # CPU seconds


def cpu_seconds(arguments: tuple[str, ...]) -> float:
    """User and system seconds of one `tuner` process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tuner", *arguments]
    env = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    subprocess.run(command, check=True, capture_output=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ray_processes() -> set[int]:
    """The pids of all Ray daemons on this machine."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue  # it has ended since
        if b"raylet" in command or b"gcs_server" in command:
            found.add(int(path.parent.name))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    print(
        f"{len(os.sched_getaffinity(0))} CPUs, python {platform.python_version()}, n = {runs}"
    )
    before = ray_processes()
    met = True
    for arguments, bar in BARS.items():
        cpu_seconds(arguments)  # compiles, and warms the disk's cache
        seconds = [cpu_seconds(arguments) for _ in range(runs)]
        median = statistics.median(seconds)
        met = met and median < bar
        print(
            f"tuner {' '.join(arguments):16} CPU s: min {min(seconds):.3f}, median {median:.3f}, "
            f"max {max(seconds):.3f}; bar {bar}"
        )
    started = ray_processes() - before
    print(f"Ray processes started: {len(started)}")
    return 0 if met and not started else 1


if __name__ == "__main__":
    sys.exit(main())
