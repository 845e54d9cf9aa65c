"""Runs all that only a GPU can show, in order, and writes the table of benchmarks/GPU.md.

    make gpu                                              at most 45 minutes on one GPU
    python -m benchmarks.gpu_list --only 3 7              some steps; the table is printed
    python -m benchmarks.gpu_list --device cpu --dry      the program itself, small, on any machine

Each step is a process of its own with a limit of time, so that one that fails, hangs or spoils the
device ends no other; what it had found until then is in the table. --dry writes no file: nothing
that it prints is a figure of a GPU. Exits with 1 if a step failed, or where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu_list.steps import ROW, STEPS, of_row

PAGE = Path(__file__).parents[1] / "GPU.md"
BEGIN = "<!-- measured -->"
END = "<!-- end -->"
HEAD = "| | what | result |\n|---|---|---|\n"


class Result(NamedTuple):
    """What a step found, as pairs of what and result, and why it failed."""

    number: int
    rows: list[tuple[str, str]]
    fault: str | None
    seconds: float


def run_step(number, device, dry):
    """Run a step in a process of its own; its Result."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu_list.steps",
        str(number),
        "--device",
        device,
    ]
    began = time.monotonic()
    rows = []
    last = ""
    process = subprocess.Popen(
        [*command, *(["--dry"] if dry else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    limit_s = STEPS[number].limit_s
    # It ends the children, too
    alarm = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
    alarm.start()
    for line in process.stdout:
        if line.startswith(ROW):
            rows.append(of_row(line))
        else:
            last = line.strip() or last
            print(f"    {line}", end="", flush=True)
    code = process.wait()
    alarm.cancel()
    seconds = time.monotonic() - began
    if seconds >= limit_s:
        return Result(number, rows, f"not done in {limit_s} s", seconds)
    return Result(
        number, rows, f"exit code {code}: {last[:200]}" if code else None, seconds
    )


def table(results):
    """The results as lines of Markdown."""
    lines = []
    for result in results:
        title = f"{result.number} {STEPS[result.number].title}"
        for what, found in [*result.rows, ("time", f"{result.seconds:.0f} s")]:
            lines.append((title, what, found))
        if result.fault:
            lines.append((title, "**failed**", result.fault))
    return HEAD + "".join(f"| {' | '.join(map(plain, line))} |\n" for line in lines)


def plain(text):
    return text.replace("|", "/").replace("\n", " ")


def write(page, measured):
    """Put the table, and what it was measured on, between the marks of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{measured}\n{END}{after}")


def setting(device):
    """What the figures are of."""
    import torch

    card = "no GPU: proves nothing"
    if device == "cuda":
        driver = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        said = subprocess.run(driver, capture_output=True, text=True, check=False)
        card = f"{torch.cuda.get_device_name(0)}, driver {said.stdout.strip() or 'unknown'}"
    versions = f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python"
    return f"{card}; {versions} {platform.python_version()}, {platform.platform()}; n as stated"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dry", action="store_true", help="small, and no figures")
    parser.add_argument(
        "--only", type=int, choices=STEPS, nargs="*", default=list(STEPS)
    )
    given = parser.parse_args(arguments)
    if given.device == "cpu" and not given.dry:
        parser.error("--device cpu needs --dry: its figures are not a GPU's")
    import torch

    if given.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: nothing measured", file=sys.stderr)
        return 1
    results = []
    for number in given.only:
        print(f"{number} {STEPS[number].title}", flush=True)
        results.append(run_step(number, given.device, given.dry))
    measured = f"{setting(given.device)}\n\n{table(results)}"
    print(f"\n{measured}")
    if not given.dry and given.only == list(STEPS):
        write(PAGE, measured)
    return int(any(result.fault for result in results))


if __name__ == "__main__":
    sys.exit(main())
