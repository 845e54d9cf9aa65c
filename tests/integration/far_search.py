"""A search on a cluster of real nodes, as a user starts it: a process of `tuner` in a folder."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tuner.experiment.reading import read

HERE = Path(__file__).parent
PATIENCE_S = 300  # two cores, with other tests beside these, are slow


def working_folder(folder):
    """`folder` as a user's working directory, with the code of a Learner."""
    shutil.copy(HERE / "travelling.py", folder)
    (folder / "notes").touch()
    return folder


def spec(folder, **fields):
    return {
        "name": "far",
        "trainable": "travelling:Travelling",
        "training": {"folder": str(folder), "epochs": 4},
        "search": {"space": {"x": "uniform(0.1, 1)"}},
        "objective": {"metric": "loss"},
        "scheduler": "none",
        "resources": {"workers": 3},
        "num_samples": 1,
        **fields,
    }


def tuner(cluster, working, *arguments, **options):
    """A process of `tuner` in the folder `working`, which has the spec far.json."""
    (working / "far.json").write_text(json.dumps(spec(working)))
    return start(cluster, working, *arguments, **options)


def start(cluster, working, *arguments, at=(), address=None, stderr=subprocess.PIPE):
    """A process of `tuner` in the folder `working`, on the machine that `at` enters."""
    # The nodes get it from `working`
    path = [entry for entry in sys.path if Path(entry) != HERE]
    trust = ["--trust"] if arguments[0] == "resume" else []
    command = [*at, sys.executable, "-m", "tuner", *map(str, arguments), *trust]
    environment = {**cluster.foreign, **cluster.environment}
    return subprocess.Popen(
        [*command, "--address", address or cluster.head],
        cwd=working,
        env={**environment, "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def ended(process):
    """Its exit code, what it printed and what it said."""
    out, messages = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, messages


def until(condition, process):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def reported(folder):
    """(trial_id, epoch) of all reports so far."""
    if not (folder / "journal.jsonl").exists():
        return []
    return [(e["trial_id"], e["epoch"]) for e in read(folder) if e["event"] == "result"]
