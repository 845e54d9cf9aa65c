"""Checks whether two checkouts of tuner write the same journals, to prove a refactoring.

    python -m benchmarks.same_journal OTHER_CHECKOUT

Runs the same searches of `digits` with each: five strategies, trials with two workers, and a search
that is killed with SIGKILL and resumed. One trial runs at a time, so that the order is fixed.
Compares everything except times, owners, and measured speed and memory. Which epochs are saved
beside training depends on how long they take; of those that both have saved the digests are
compared. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import zip_longest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
# Endings of metrics that are never the same twice
MEASURED = ("_s", "_mib", "per_s", "seconds")
# Of an event; with the summary of the last one, which follows from the others
TIMED = ("time", "owner", "counts", "best", "total", "started", "idle_s")
KILL_AFTER = 12  # lines of the journal
SEARCHES = {
    **{
        strategy: [f"--search={strategy}", "--num-samples=10"]
        for strategy in ("random", "grid", "hyperopt", "bayesopt", "bohb")
    },
    "workers": ["--workers=2", "--num-samples=3"],
    "killed": ["--num-samples=6"],
}
COMMON = [
    "--seed=3",
    "--max-concurrent=1",
    "scheduler.max_t=4",
    "scheduler.reduction_factor=2",
]


def tuner(checkout: Path, storage: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tuner",
            *arguments,
            f"--storage={storage}",
            "--no-evaluate",
        ],
        cwd=checkout,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def journal(checkout: Path, name: str) -> list[dict]:
    """The events of the search `name`, made with the tuner of `checkout`, without what varies."""
    with tempfile.TemporaryDirectory() as folder:
        storage = Path(folder)
        lines = storage / name / "journal.jsonl"
        process = tuner(
            checkout,
            storage,
            "run",
            "digits",
            f"--name={name}",
            *COMMON,
            *SEARCHES[name],
        )
        if name == "killed":
            while process.poll() is None and (
                not lines.exists() or lines.read_bytes().count(b"\n") < KILL_AFTER
            ):
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = tuner(checkout, storage, "resume", name)
        code = process.wait()
        assert code == 0, f"{checkout}: {name} ended with {code}"
        events = [json.loads(line) for line in lines.read_text().splitlines()]
    if name == "killed":
        events = merged(events)
    return [plain(event) for event in events]


def merged(events: list[dict]) -> list[dict]:
    """A killed search's events but for where it was cut, which is another place each time."""
    kept = [e for e in events if e["event"] in ("result", "checkpoint", "trial_ended")]
    return sorted(kept, key=lambda e: (e["trial_id"], e.get("epoch", 1e9), e["event"]))


def saved(events: list[dict]) -> dict[tuple[str, int], dict]:
    """The checkpoints of a search, by trial and epoch."""
    return {
        (e["trial_id"], e["epoch"]): e for e in events if e["event"] == "checkpoint"
    }


def decided(events: list[dict]) -> list[dict]:
    """All else that it did."""
    return [event for event in events if event["event"] != "checkpoint"]


def plain(event: dict) -> dict:
    kept = {key: value for key, value in event.items() if key not in TIMED}
    if "metrics" in kept:
        values = kept["metrics"].items()
        kept["metrics"] = {name: v for name, v in values if not name.endswith(MEASURED)}
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout of another revision")
    parser.add_argument(
        "--only", choices=sorted(SEARCHES), nargs="*", default=list(SEARCHES)
    )
    arguments = parser.parse_args()
    differ = False
    for name in arguments.only:
        theirs, ours = (journal(c.resolve(), name) for c in (arguments.other, HERE))
        pairs = list(zip_longest(decided(theirs), decided(ours)))
        checkpoints = [saved(events) for events in (theirs, ours)]
        both = checkpoints[0].keys() & checkpoints[1].keys()
        pairs += [(checkpoints[0][key], checkpoints[1][key]) for key in sorted(both)]
        different = [(a, b) for a, b in pairs if a != b]
        differ |= bool(different)
        told = "DIFFERENT" if different else "equal"
        counts = f"{len(pairs) - len(both):4} events, {len(both):3} checkpoints of both"
        only = " and ".join(str(len(found.keys() - both)) for found in checkpoints)
        print(f"{name:10} {counts} {told}; of one alone: {only}", flush=True)
        if different:
            print("  first difference:", *different[0])
    sys.exit(int(differ))


if __name__ == "__main__":
    main()
