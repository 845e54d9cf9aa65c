"""tuner as a user runs it: `run`, `export` and `evaluate` by subprocess, with what they cost."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MARK = "TUNER_BENCHMARK_MARK"  # in the environment of every process that a measured one starts
_POLL_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")

# Further arguments of `tuner run folder:PATH`; {weights} is the file of the pretrained network
LINES: dict[str, tuple[str, ...]] = {
    "default": (),
    "weights": ("training.model=resnet10", "training.start_from={weights}"),
    "head": (
        *("training.model=resnet10", "training.start_from={weights}"),
        "training.train_layers=head",
    ),
}


@dataclass
class Cost:
    """CPU seconds of all processes, dead or alive, that carry a mark; also orphans of daemons.

    A process is read from /proc every 0.5 s; what those that were waited for used in the end is
    known exactly, and the larger of the two sums counts.
    """

    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    _seen: dict[str, float] = field(default_factory=dict)
    _parents: set[bytes] = field(default_factory=set)

    def run(self, command: list[str], *, env: dict[str, str]) -> str:
        """The command's output; adds what it costs. SystemExit with its errors if it fails."""
        done = threading.Event()
        poll = threading.Thread(target=self._watch, args=(done,), daemon=True)
        before, began = waited_cpu_s(), time.monotonic()
        poll.start()
        ended = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **env, _MARK: self.mark}
        )
        done.set()
        poll.join()
        self.wall_s += time.monotonic() - began
        self.cpu_s += max(waited_cpu_s() - before, sum(self._seen.values()))
        self._seen.clear()
        self._parents.clear()
        if ended.returncode not in (0, 3):  # 3: some trials failed
            raise SystemExit(f"{' '.join(command)} failed: {ended.stderr[-2000:]}")
        return ended.stdout

    @property
    def spent(self) -> dict[str, float]:
        return {"cpu_s": self.cpu_s, "wall_s": self.wall_s}

    def _watch(self, done: threading.Event) -> None:
        while not done.is_set():
            for entry in Path("/proc").glob("[0-9]*"):
                self._read(entry)
            done.wait(_POLL_S)

    def _read(self, entry: Path) -> None:
        """Note the CPU seconds of a process, if it has the mark."""
        try:
            stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            who = f"{entry.name} {stat[19].decode()}"  # its number and when it began
            if who not in self._seen:  # an environment changes with exec, and Ray overwrites it
                mark = f"{_MARK}={self.mark}".encode()
                if mark not in (entry / "environ").read_bytes() and stat[1] not in self._parents:
                    return
        except OSError:
            return  # it is over, or another user's
        self._parents.add(entry.name.encode())
        self._seen[who] = (int(stat[11]) + int(stat[12])) / _TICKS


def waited_cpu_s() -> float:
    """User and system seconds of this process's children that were waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_line(
    name: str,
    folder: Path,
    test: Path,
    weights: Path,
    *,
    seed: int,
    storage: Path,
    refit: bool,
    every_trial: bool,
) -> dict[str, Any]:
    """The test accuracy that a line of tuner reaches on a folder, and what its search costs.

    cpu_s and wall_s are those of `tuner run`; export and evaluation are not in them. refit: also
    measure, under the key `refit`, what `tuner refit` makes of the best trial; its costs are those
    of both. every_trial: also measure each trial; `named` is the one that the search names.
    """
    tuner = [sys.executable, "-m", "tuner"]
    env = {"TUNER_DATA": str(storage / "data")}
    where = ["--storage", str(storage)]
    further = [argument.replace("{weights}", str(weights)) for argument in LINES[name]]
    command = [*tuner, "run", f"folder:{folder}", "--name", "photos", *where]

    def tested(experiment: str) -> float:
        export = storage / f"{experiment}-model"
        Cost().run([*tuner, "export", experiment, "--to", str(export), *where], env=env)
        evaluate = [*tuner, "evaluate", str(export), "--data", str(test), "--json"]
        return float(json.loads(Cost().run(evaluate, env=env))["test_accuracy"])

    cost = Cost()
    cost.run([*command, "--seed", str(seed), *further], env=env)
    row: dict[str, Any] = {"accuracy": tested("photos"), **cost.spent}
    if refit:
        cost.run([*tuner, "refit", "photos", *where], env=env)
        row["refit"] = {"accuracy": tested("photos-refit"), **cost.spent}
    if every_trial:
        row |= trials_tested(storage / "photos", test)
    return row


def trials_tested(experiment: Path, test: Path) -> dict[str, Any]:
    """{named, accuracies}: the trial that the search names; test accuracies by trial."""
    import tuner
    from tuner.vision.export.evaluate import evaluate_export
    from tuner.vision.export.read import read_export

    results, accuracies = tuner.load_results(experiment), {}
    for trial_id, trial in results.trials.items():
        if trial.checkpoints:
            to = experiment.parent / f"model-{trial_id}"
            export = read_export(results.export(to, trial_id=trial_id))
            accuracies[trial_id] = evaluate_export(export, data_dir=str(test))["test_accuracy"]
    return {"named": results.get_best_trial().trial_id, "accuracies": accuracies}
