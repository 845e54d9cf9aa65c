"""What the journal costs: one append, its share of a search, and reading a long one.

    python -m benchmarks.journal [--trials 10000]

Uses the driver's own writer to append the events of this many trials with ten reports each. At 100,
1,000 and 10,000 trials it continues for ten seconds like a search with 50 reports per second and
prints the share of that time that the journal takes: a report's line, its checkpoint's line, and
the syncs to disk. Then it reads the journal in new processes, builds the trials from it, and prints
the time and the peak memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tuner.experiment.events import CHECKPOINT, RESULT, TRIAL_ENDED, TRIAL_STARTED
from tuner.experiment.files import JOURNAL
from tuner.experiment.history import fold
from tuner.experiment.journal import Journal
from tuner.experiment.reading import read

REPORTS = 10  # of a trial
A_SECOND = 50  # reports of a search
PACED_S = 10
BLOCKS = (100, 1_000, 10_000)  # trials after which the cost is told
METRICS = {
    "train_loss": 0.51234567,
    "val_loss": 0.2534561,
    "val_accuracy": 0.91666,
    "lr": 0.1,
    "images_per_s": 21034.5,
    "epoch_s": 0.1512,
    "memory_mib": 311.2,
    "peak_memory_mib": 330.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=BLOCKS[-1])
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(reading(options.read)))
        return
    print(f"Python {platform.python_version()}, {platform.machine()}")
    with tempfile.TemporaryDirectory(prefix="journal-") as name:
        folder = Path(name)
        write(folder, options.trials)
        size = (folder / JOURNAL).stat().st_size / 2**20
        command = [sys.executable, "-m", "benchmarks.journal", "--read", str(folder)]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(5)]
    seconds = sorted(run["seconds"] for run in runs)
    mb, cpu = max(run["mb"] for run in runs), min(run["cpu"] for run in runs)
    print(
        f"reading {options.trials:,} trials, {options.trials * REPORTS:,} reports, {size:.0f} MiB: "
        f"{seconds[0]:.2f} / {statistics.median(seconds):.2f} / {seconds[-1]:.2f} s "
        f"(min / median / max of {len(runs)}), {cpu:.2f} CPU s, peak {mb:.0f} MB of the process"
    )


def write(folder: Path, trials: int) -> None:
    """Write the journal, and print the cost of a report after each block of trials."""
    print("trials so far   us a report, min / median / p99 / max   share of a search")
    with Journal.open(folder) as journal:
        for number in range(trials):
            one_trial(journal, f"{number:05}", epochs=REPORTS)
            if number + 1 in BLOCKS:
                paced = f"{10**6 + number}"
                took = sorted(one_trial(journal, paced, epochs=A_SECOND * PACED_S, pause=True))
                microseconds = [1e6 * took[int(q * (len(took) - 1))] for q in (0, 0.5, 0.99, 1)]
                told = " / ".join(f"{value:.0f}" for value in microseconds)
                print(f"{number + 1:13,}   {told:>37}   {sum(took) / PACED_S:17.2%}")


def one_trial(journal: Journal, trial_id: str, *, epochs: int, pause: bool = False) -> list[float]:
    """Write the story of one trial; seconds that each of its reports took, syncs included."""
    journal.append(TRIAL_STARTED, trial_id=trial_id, config={"lr": 0.0123, "momentum": 0.9})
    took = []
    for epoch in range(1, epochs + 1):
        started = time.perf_counter()
        journal.append(RESULT, trial_id=trial_id, epoch=epoch, metrics=METRICS)
        path = f"trials/{trial_id}/checkpoints/{epoch}/state.pt"
        journal.append(CHECKPOINT, trial_id=trial_id, epoch=epoch, path=path, sha256="0" * 64)
        took.append(time.perf_counter() - started)
        if pause:
            time.sleep(max(0.0, 1 / A_SECOND - took[-1]))
    journal.append(TRIAL_ENDED, trial_id=trial_id, status="completed")
    return took


def reading(folder: Path) -> dict[str, float]:
    """Seconds to read and fold the journal, and the peak memory of this process in MB."""
    started, cpu = time.perf_counter(), time.process_time()
    history = fold(read(folder))
    seconds = time.perf_counter() - started
    cpu = time.process_time() - cpu
    assert len(history.trials) > 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"seconds": seconds, "mb": peak, "cpu": cpu}


if __name__ == "__main__":
    main()
