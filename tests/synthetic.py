"""Experiment folders without Ray: an experiment.json, and a journal written by Journal itself."""

import json
from pathlib import Path

from tuner.experiment.events import (
    CHECKPOINT,
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
)
from tuner.experiment.files import compute_sha256
from tuner.experiment.journal import Journal
from tuner.experiment.results.results import Results

START = 1_700_000_000.0
TRAINABLE = "noisy:function"  # tests/integration/noisy.py
OWNER = {"host": "laptop", "pid": 1, "started": START}


def read_document(path):
    """What a JSON file holds."""
    return json.loads(Path(path).read_text())


def change_document(path, **changes):
    """Set keys of a JSON file; returns what it holds then."""
    document = read_document(path) | changes
    Path(path).write_text(json.dumps(document))
    return document


class Clock:
    """A clock that goes on by `tick` seconds each time it is read."""

    def __init__(self, now=START, tick=1.0):
        self.now = now
        self.tick = tick

    def __call__(self):
        self.now += self.tick
        return self.now


def make_folder(folder, *, metric="val_accuracy", mode="max", scheduler=True, **spec):
    """An experiment's folder with its experiment.json and no journal yet.

    scheduler: True for ASHA, or the settings of one.
    """
    folder.mkdir(parents=True)
    if scheduler is True:
        scheduler = {
            "name": "asha",
            "max_t": 10,
            "grace_period": 1,
            "reduction_factor": 2,
        }
    full = {
        "name": folder.name,
        "trainable": TRAINABLE,
        "training": {"model": "cnn", "dataset": "digits"},
        "search": {"strategy": "random", "space": {"lr": "loguniform(0.0001, 1)"}},
        "objective": {"metric": metric, "mode": mode},
        "scheduler": scheduler or None,
        "resources": {"cpus": 1, "gpus": 0, "workers": 1},
        "num_samples": 4,
        "seed": 1,
    } | spec
    versions = {"ray": "2.60.0", "torch": "2.13.0"}
    document = {
        "format": 1,
        "spec": full,
        "seed": 1,
        "versions": versions,
        "git_revision": None,
    }
    (folder / "experiment.json").write_text(json.dumps(document))
    return folder


class Writer:
    """Writes an experiment's story in few words."""

    def __init__(self, folder, *, resumed=False, clock=None):
        self.folder = Path(folder)
        self.journal = Journal.open(self.folder, clock=clock or Clock())
        self.events = []
        self.add(EXPERIMENT_STARTED, resumed=resumed, owner=OWNER)

    def add(self, event, **fields):
        self.events.append(self.journal.append(event, **fields))
        return self.events[-1]

    def trial(
        self,
        number,
        values=(),
        *,
        end=COMPLETED,
        error=None,
        config=None,
        first=1,
        **fields,
    ):
        """A trial that reports `values` (val_accuracy, or dicts of metrics) and ends as `end`."""
        trial_id = f"{number:05}"
        self.add(
            TRIAL_STARTED,
            trial_id=trial_id,
            config=config or {"lr": 10.0**-number},
            **fields,
        )
        for epoch, value in enumerate(values, start=first):
            metrics = value if isinstance(value, dict) else {"val_accuracy": value}
            self.add(RESULT, trial_id=trial_id, epoch=epoch, metrics=metrics)
        if error:
            end = FAILED
        if end:
            extra = {"error": {"kind": error[0], "message": error[1]}} if error else {}
            self.add(TRIAL_ENDED, trial_id=trial_id, status=end, **extra)
        return trial_id

    def checkpoint(self, trial_id, epoch, content=b"weights"):
        """Write a checkpoint file and journal it; returns its path."""
        path = (
            self.folder / "trials" / trial_id / "checkpoints" / str(epoch) / "state.pt"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.journal_checkpoint(trial_id, epoch, path)
        return path

    def journal_checkpoint(self, trial_id, epoch, path):
        name = path.relative_to(self.folder).as_posix()
        self.add(
            CHECKPOINT,
            trial_id=trial_id,
            epoch=epoch,
            path=name,
            sha256=compute_sha256(path),
        )

    def end(self, status=COMPLETED, **fields):
        self.add(EXPERIMENT_ENDED, status=status, **fields)
        self.journal.close()

    @property
    def results(self):
        """What is read of the experiment now."""
        return Results(self.folder)

    def kill(self):
        """Stop without a word, as a killed driver does."""
        self.journal.close()


def ended(folder, *trials, **spec):
    """The folder of a search that has ended; of each trial its values, or as a tuple its error."""
    writer = Writer(make_folder(folder, **spec))
    for number, values in enumerate(trials):
        writer.trial(
            number, **{"error" if isinstance(values, tuple) else "values": values}
        )
    writer.end()
    return folder
