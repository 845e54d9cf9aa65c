"""Kill a search at random times, resume it, and compare with one that nobody touched.

    python -m benchmarks.faults [--rounds 30] [--searches grid,random,hyperopt,bayesopt] [--seed 0]

Each round runs one search with `--max-concurrent 1` and kills, one to three times at random
moments, one of: the driver, a worker, the raylet, the GCS, or everything at once. Whenever the
driver is gone it is resumed. A round is clean when in the end

- every trial is there once, with the reference's config, stop epoch and status;
- the best trial and its value are the reference's, to the bit;
- no trial started over although it had a checkpoint, and none repeated more than one epoch a kill;
- no process of the search is alive 15 s after its driver.

Linux only: processes are found by what the driver marks them with.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TARGETS = ("driver", "worker", "raylet", "gcs", "everything")
LIMIT_S = 240  # a driver that has lost its cluster and is not gone by then is killed
GONE_S = 15
SPEC = {
    "training": {"width": 8, "epochs": 6},
    "search": {
        "space": {
            "lr": "loguniform(1e-2, 1)",
            "momentum": "choice([0.8, 0.9])",
            "batch_size": "choice([16, 64])",
        }
    },
    "scheduler": {"max_t": 6, "grace_period": 1, "reduction_factor": 3},
    "num_samples": 12,
    "max_concurrent": 1,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--searches", default="grid,random,hyperopt,bayesopt")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        for search in options.searches.split(","):
            storage = Path(folder) / search
            storage.mkdir()
            (storage / "spec.json").write_text(json.dumps(SPEC))
            started = time.monotonic()
            run(storage, "reference", search)
            length = time.monotonic() - started
            reference = outcome(storage / "reference")
            clean, kills = 0, Counter()
            for number in range(options.rounds):
                rng = random.Random(f"{options.seed}-{search}-{number}")
                name = f"round-{number}"
                targets = [rng.choice(options.targets.split(",")) for _ in range(rng.randint(1, 3))]
                faults = one_round(storage, name, search, targets, rng, length)
                faults += differences(reference, outcome(storage / name))
                faults += repeats(storage / name, len(targets))
                kills.update(targets)
                clean += not faults
                for fault in faults:
                    print(f"  {search} round {number} ({', '.join(targets)}): {fault}", flush=True)
            failed += options.rounds - clean
            told = ", ".join(f"{target} {kills[target]}" for target in TARGETS if kills[target])
            print(
                f"{search:9} {clean} of {options.rounds} rounds clean; killed: {told}", flush=True
            )
    return 1 if failed else 0


def command(storage: Path, name: str, search: str) -> list[str]:
    """Run the search, or go on with it where it has begun."""
    tuner = [sys.executable, "-m", "tuner"]
    common = ["--storage", str(storage), "--no-evaluate"]
    if (storage / name / "journal.jsonl").exists():
        return [*tuner, "resume", name, *common]
    points = ["--num-samples", str(SPEC["num_samples"])] if search == "grid" else []
    spec = str(storage / "spec.json")
    return [*tuner, "run", spec, "--search", search, "--name", name, *points, *common]


def start(storage: Path, name: str, search: str) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command(storage, name, search), stdout=quiet, stderr=quiet)


def run(storage: Path, name: str, search: str) -> None:
    process = start(storage, name, search)
    assert process.wait(LIMIT_S) == 0, f"{name} ended with {process.returncode}"


def one_round(
    storage: Path, name: str, search: str, targets: list[str], rng: random.Random, length: float
) -> list[str]:
    """Run with kills until it is done; what went wrong with processes."""
    faults = []
    for target in [*targets, None]:
        process = start(storage, name, search)
        if target is not None:
            time.sleep(rng.uniform(0.1, 0.9) * length)
            marks = marks_of(process.pid)
            kill(target, process, marks)
            if target == "worker":  # the search goes on by itself
                target = None
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            faults.append(f"the driver lived on for {LIMIT_S} s after {target}")
            process.kill()
            code = process.wait()
        if target is not None:
            faults += left_over(marks)
        elif code == 0:
            break
        # killed before it had begun: its folder may be there without a journal
        if not (storage / name / "journal.jsonl").exists() and (storage / name).exists():
            (storage / name / "experiment.json").unlink(missing_ok=True)
            (storage / name).rmdir()
    if outcome(storage / name)["status"] != "completed":
        run(storage, name, search)
    return faults


def marks_of(driver: int) -> set[bytes]:
    """The marks that this driver's children carry in their environment."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PPid:\t{driver}\n" in status:
            found |= {e for e in environment if e.startswith(b"TUNER_SESSION=")}
    return found


def marked(marks: set[bytes]) -> dict[int, str]:
    """pid -> command of every process that carries one of `marks`."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = set((entry / "environ").read_bytes().split(b"\0"))
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if environment & marks:
            found[int(entry.name)] = words
    return found


def kill(target: str, driver: subprocess.Popen[bytes], marks: set[bytes]) -> None:
    """SIGKILL the target, where it is there at this moment."""
    processes = marked(marks)
    by_name = {
        "raylet": [pid for pid, words in processes.items() if "raylet/raylet" in words],
        "gcs": [pid for pid, words in processes.items() if "gcs_server" in words],
        "worker": [pid for pid, words in processes.items() if words.startswith("ray::Learner")],
        "driver": [driver.pid],
        "everything": [driver.pid, *processes],
    }
    for pid in by_name[target]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def left_over(marks: set[bytes]) -> list[str]:
    deadline = time.monotonic() + GONE_S
    while marked(marks):
        if time.monotonic() > deadline:
            return [f"alive after {GONE_S} s: {sorted(marked(marks).values())}"]
        time.sleep(0.2)
    return []


def outcome(folder: Path) -> dict[str, object]:
    """What the search came to: the same for a killed and for an unkilled one."""
    from tuner.errors import TunerError
    from tuner.results import Results

    try:
        results = Results(folder)
    except TunerError as error:
        return {"status": f"unreadable: {error}"}
    trials = {
        trial.trial_id: (trial.config, trial.status, trial.last_epoch, trial.values("val_loss"))
        for trial in results.trials.values()
    }
    best = results.show()["best"]
    value = best and (best["trial_id"], best["epoch"], best["metrics"]["val_loss"])
    return {"status": results.status, "trials": trials, "best": value}


def differences(reference: dict[str, object], found: dict[str, object]) -> list[str]:
    return [f"{key} differs" for key in reference if reference[key] != found.get(key)]


def repeats(folder: Path, kills: int) -> list[str]:
    """Trials that started over, or repeated more than an epoch a kill, by what they logged."""
    from tuner.journal import read

    ends = Counter(e["trial_id"] for e in read(folder) if e["event"] == "trial_ended")
    again = [t for t, count in ends.items() if count > kills + 1]
    checkpoints: Counter[tuple[str, int]] = Counter()
    for event in read(folder):
        if event["event"] == "checkpoint":
            checkpoints[event["trial_id"], event["epoch"]] += 1
    repeated = Counter()
    for (trial_id, _), count in checkpoints.items():
        repeated[trial_id] += count - 1
    return [f"trial {t} ended {ends[t]} times" for t in again] + [
        f"trial {t} repeated {count} epochs" for t, count in repeated.items() if count > kills
    ]


if __name__ == "__main__":
    sys.exit(main())
