"""The trial of a class of Ray Tune's, in this process; more of it is in integration/."""

import json
import os
from pathlib import Path

import pytest
from ray import tune
from test_trainable import assignment, begun, log
from test_worker import context

from tuner.trial.failures import WorkerSpentError
from tuner.trial.trainable import REPORT
from tuner.trial.tune_trials import ClassTrial


class UncopiableError(Exception):
    """One that cannot be copied, as Ray would."""

    def __init__(self, first, second):
        super().__init__(first)


class Counting(tune.Trainable):
    """Counts its steps; ends by itself, or raises, at the step that its config says."""

    def setup(self, config):
        self.counted = config.get("start", 0)
        self.kept = {"files": self.keep_files, "dict": lambda folder: {"counted": self.counted}}

    def step(self):
        self.counted += 1
        if self.counted == self.config.get("raises_at"):
            raise UncopiableError("enough", 2)
        return {
            "steps": self.counted,
            "own": self.iteration,
            "here": float(self.logdir == os.getcwd()),
            **{name: self.config[name] for name in ("seed",) if name in self.config},
            "done": self.counted == self.config.get("ends_at"),
        }

    def keep_files(self, folder):
        (Path(folder) / "counted.json").write_text(json.dumps(self.counted))

    def save_checkpoint(self, checkpoint_dir):
        return self.kept[self.config.get("keeps", "files")](checkpoint_dir)

    def load_checkpoint(self, checkpoint):
        if isinstance(checkpoint, dict):
            self.counted = checkpoint["counted"]
        else:
            self.counted = json.loads((Path(checkpoint) / "counted.json").read_text())

    def reset_config(self, new_config):
        return True  # and forgets nothing, as Ray's own examples

    def cleanup(self):
        print("cleaned up at", self.counted)
        if self.config.get("fails_at_the_end"):
            raise UncopiableError("the end", 2)


@pytest.fixture
def make(tmp_path, monkeypatch):
    trials = []
    monkeypatch.chdir(tmp_path)

    def begin(config=None, name="Counting", **fields):
        made = context(tmp_path, trainable=f"test_tune_trials:{name}", cpus=1)
        fields = {"seed": None, **fields}
        trials.append(begun(ClassTrial, made, assignment(config, **fields)))
        return trials[-1]

    yield begin
    for trial in trials:
        trial.stop()


def test_train_is_a_step_and_a_checkpoint(make, tmp_path):
    trial = make()
    results = [trial.train() for _ in range(3)]
    assert [r["done"] for r in results] == [False, False, True]
    for epoch, result in enumerate(results, start=1):
        report = json.loads(json.dumps(result[REPORT]))
        assert report["metrics"] == {"steps": epoch, "own": epoch - 1, "here": 1}
        assert report["checkpoints"][0]["path"] == f"trials/00000/checkpoints/{epoch}"
        assert (tmp_path / report["checkpoints"][0]["path"] / "counted.json").is_file()
    trial.stop()
    assert log(tmp_path) == "cleaned up at 3\n"


@pytest.mark.parametrize("keeps", ["files", "dict"])
def test_class_continues_from_its_checkpoint(make, keeps):
    trial = make({"keeps": keeps})
    trial.train()
    [checkpoint] = trial.train()[REPORT]["checkpoints"]
    trial.stop()
    epoch = checkpoint.pop("epoch")
    resumed = make({"keeps": keeps}, epoch=epoch, checkpoint=checkpoint)
    result = resumed.train()
    assert (result["steps"], result["own"], result["training_iteration"]) == (3, 2, 3)
    assert result["done"]


def test_reset_makes_a_new_object(make):
    trial = make()
    trial.train()
    assert trial.reset(assignment(trial_id="00001", seed=None))
    assert trial.train()["steps"] == 1


def test_error_of_step_is_the_failure(make, tmp_path):
    trial = make({"raises_at": 1})
    with pytest.raises(WorkerSpentError) as spent:
        trial.train()
    assert spent.value.failure.message.startswith(
        "UncopiableError: enough, at test_tune_trials.py:"
    )
    assert "raise UncopiableError" in log(tmp_path)


def test_failed_cleanup_ends_the_process(make, tmp_path):
    trial = make({"fails_at_the_end": True})
    trial.train()
    trial.stop()
    reason = "this process is not used again: cleanup() failed: UncopiableError: the end"
    assert log(tmp_path).splitlines()[-1] == reason


def test_seed_of_the_trial_is_in_its_config(make):
    trial = make({"start": 5}, seed=7)
    report = trial.train()[REPORT]["metrics"]
    assert (report["seed"], report["steps"]) == (7, 6)
