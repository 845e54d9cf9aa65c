"""What looking at an experiment of 100,000 trials costs, and going on with it.

    python -m benchmarks.many_trials                      ten minutes
    python -m benchmarks.many_trials --trials 1000        shows that it works, proves nothing

Writes the folder of an experiment that never ran: two thirds of its trials report one epoch, the
others up to ten, each with seven metrics and a checkpoint; the files of the checkpoints and of
TensorBoard are missing. Then each of these is done in a process of its own: `tuner show`, which
reads the journal; `show`, `best` and `ls` from what it has kept; `report`; and for each strategy
the part of `resume` that grows with the experiment, all but Ray itself: reading the journal,
restoring history, scheduler and searcher, and suggesting the first new config. Wall and CPU time
are those of the whole process, its imports included; memory is the most that it had resident.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from tuner.experiment.files import EXPERIMENT, JOURNAL

STRATEGIES = ("random", "grid", "hyperopt", "bayesopt", "bohb")
SPACE = {"lr": "loguniform(0.0001, 1)", "momentum": "uniform(0, 0.9)"}
START = 1_700_000_000.0
METRICS = ("train_loss", "val_loss", "val_accuracy", "lr", "epoch_s", "memory_mib", "images_per_s")
_OWN = "--restore"  # of this module: what a child process does


def write_experiment(folder, trials, strategy):
    """An experiment.json of so many trials."""
    spec = {
        "name": folder.name,
        "trainable": "tuner.vision.image_classifier:ImageClassifier",
        "training": {"model": "cnn", "dataset": "digits"},
        "search": {"strategy": strategy, "space": SPACE},
        "objective": {"metric": "val_loss", "mode": "min"},
        "scheduler": {"name": "asha", "max_t": 10, "grace_period": 1, "reduction_factor": 2},
        "resources": {"cpus": 1, "gpus": 0, "workers": 1},
        "num_samples": trials + 100,
        "seed": 1,
    }
    if strategy == "grid":
        spec["search"]["points"] = 1000  # of each
    folder.mkdir(parents=True)
    document = {"format": 1, "spec": spec, "seed": 1, "versions": {}, "git_revision": None}
    (folder / EXPERIMENT).write_text(json.dumps(document))


def events(trials):
    """The events of such an experiment, without their times."""
    chance = random.Random(0)
    owner = {"host": "nowhere", "pid": 1, "started": START}
    yield {"event": "experiment_started", "resumed": False, "owner": owner}
    for number in range(trials):
        trial_id = f"{number:05}"
        config = {"lr": 10 ** chance.uniform(-4, 0), "momentum": chance.uniform(0, 0.9)}
        yield {"event": "trial_started", "trial_id": trial_id, "config": config, "origin": "random"}
        epochs = chance.choices((1, 2, 4, 8, 10), (67, 22, 4, 4, 3))[0]
        for epoch in range(1, epochs + 1):
            about = {"trial_id": trial_id, "epoch": epoch}
            metrics = {name: chance.random() / epoch for name in METRICS}
            yield {"event": "result", **about, "metrics": metrics}
            path = f"trials/{trial_id}/checkpoints/{epoch}/state.pt"
            digest = f"{chance.getrandbits(256):064x}"
            yield {"event": "checkpoint", **about, "path": path, "sha256": digest}
        status = "completed" if epochs == 10 else "stopped"
        yield {"event": "trial_ended", "trial_id": trial_id, "status": status}
    yield {"event": "experiment_ended", "status": "completed"}


def write_journal(path, trials):
    """Returns the number of lines."""
    with path.open("w") as file:
        for number, event in enumerate(events(trials)):
            timed = {"event": event.pop("event"), "time": START + number / 100, **event}
            file.write(json.dumps(timed, separators=(",", ":")) + "\n")
    return number + 1


def restore(folder):
    """What `tuner resume` does until its first new trial could start, but for Ray."""
    from tuner.cli.consent import admit_experiment
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.journal import Journal
    from tuner.experiment.results.described import Described
    from tuner.search.driver import Driver
    from tuner.spec.validation import validate

    admit_experiment(Described(folder), trust=True)  # reads which code the configs name
    files = ExperimentFolder(folder)
    spec = validate(files.document()["spec"], source=str(folder))
    with files.held(print), Journal.open(folder) as journal:
        driver = Driver(spec, files, journal)
        driver.restore()
        driver.begin([], fits=lambda: 2)
        assert driver.queue.next()


def measured(*command):
    """(wall seconds, CPU seconds, MiB) of a process."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def table(storage, trials):
    """Measure all and print a line for each."""
    first = storage / STRATEGIES[0] / "experiment"
    write_experiment(first, trials, STRATEGIES[0])
    lines = write_journal(first / JOURNAL, trials)
    size = (first / JOURNAL).stat().st_size / 1e6
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("pydantic-core", "optuna", "plotly")
    )
    print(f"{trials} trials, {lines} lines, {size:.0f} MB; n = 1")
    print(f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores\n")
    print("| | seconds | CPU seconds | MiB |\n|---|---|---|---|", flush=True)
    looks = {name: ("tuner", name, str(first)) for name in ("show", "best", "report")}
    looks = {"show, the first look": looks["show"], **looks}
    looks["ls"] = ("tuner", "ls", "--storage", str(first.parent))
    for name, command in looks.items():
        print_line(f"tuner {name}", measured(*command))
    page = (first / "report.html").stat().st_size / 1e6
    for strategy in STRATEGIES:
        folder = storage / strategy / "experiment"
        if strategy != STRATEGIES[0]:
            write_experiment(folder, trials, strategy)
            os.link(first / JOURNAL, folder / JOURNAL)
        print_line(f"resume, {strategy}", measured("benchmarks.many_trials", _OWN, str(folder)))
    print(f"\nreport.html: {page:.1f} MB")


def print_line(name, figures):
    wall_s, cpu_s, mib = figures
    print(f"| {name} | {wall_s:.1f} | {cpu_s:.1f} | {mib:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument(_OWN, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.restore:
        restore(args.restore)
        return
    with tempfile.TemporaryDirectory() as folder:
        table(Path(folder) / "storage", args.trials)


if __name__ == "__main__":
    main()
