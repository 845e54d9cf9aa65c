"""A search that waits at a gate in its 7th epoch, and what must be there whatever ends it."""

import time
from pathlib import Path

from tuner.experiment.events import CHECKPOINT, RESULT, TRIAL_STARTED
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.vision.image_classifier import ImageClassifier

LIMIT_S = 180
# That no run has twice
TIMES = ("images_per_s", "epoch_s", "memory_mib", "peak_memory_mib")


class Gated(ImageClassifier):
    """The image classifier; its step number `gate_at` waits until the file `gate`/open is there."""

    def __init__(self, config, constants, **process):
        self.gate = Path(constants["gate"])
        self.gate_at = constants["gate_at"]
        ours = ("gate", "gate_at")
        super().__init__(
            config, {k: v for k, v in constants.items() if k not in ours}, **process
        )

    def step(self):
        with (self.gate / "steps").open("a") as steps:
            steps.write(".")
        if (self.gate / "steps").stat().st_size == self.gate_at:
            while not (self.gate / "open").exists():
                time.sleep(0.02)
        return super().step()


def spec(folder, *, epochs=4, **fields):
    """A search on digits whose 7th epoch, of all trials together, waits for the gate."""
    return {
        "name": "gated",
        "trainable": "gated:Gated",
        "training": {
            "model": "cnn",
            "dataset": "digits",
            "width": 4,
            "epochs": epochs,
            "gate": str(folder),
            "gate_at": 7,
        },
        "search": {
            "space": {"lr": "loguniform(1e-2, 1)", "batch_size": "choice([128, 256])"}
        },
        "scheduler": {"max_t": 4, "grace_period": 1, "reduction_factor": 2},
        "num_samples": 5,
        "seed": 7,
        "storage": str(folder / "results"),
        **fields,
    }


def wait_for(condition, process=None):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        if process is not None and process.poll() is not None:
            raise AssertionError(
                f"ended with {process.returncode}: {process.communicate()}"
            )
        time.sleep(0.05)


def at_the_gate(folder):
    steps = folder / "steps"
    return lambda: steps.exists() and steps.stat().st_size >= 7


def open_gate(folder):
    (folder / "open").touch()


def assert_sound(folder, trials):
    """What the contract says of every journal, resumed or not."""
    events = list(read(folder))
    ids = [e["trial_id"] for e in events if e["event"] == TRIAL_STARTED]
    assert sorted(set(ids)) == [f"{number:05}" for number in range(trials)]
    for trial_id in set(ids):
        of_trial = [e for e in events if e.get("trial_id") == trial_id]
        epochs = [e["epoch"] for e in of_trial if e["event"] == RESULT]
        assert epochs == list(range(1, len(epochs) + 1))
        saved = {e["epoch"] for e in of_trial if e["event"] == CHECKPOINT}
        assert {1, epochs[-1]} <= saved <= set(epochs)  # the best is seen to below
        starts = [e["config"] for e in of_trial if e["event"] == TRIAL_STARTED]
        assert all(config == starts[0] for config in starts)
    for trial in Results(folder).trials.values():
        assert trial.status in ("completed", "stopped")
        kept = {
            int(p.name)
            for p in (folder / "trials" / trial.trial_id / "checkpoints").iterdir()
        }
        assert kept >= {Results(folder).best_epoch(trial), trial.last_epoch}


def story(folder):
    """All that the same seed decides."""
    return {
        trial.trial_id: (
            trial.config,
            trial.status,
            [
                (
                    report.epoch,
                    {k: v for k, v in report.metrics.items() if k not in TIMES},
                )
                for report in trial.results
            ],
        )
        for trial in Results(folder).trials.values()
    }
