"""Classes of Ray Tune's, and the examples that it ships, train as they are."""

import os
from pathlib import Path

import pytest
from ray import tune

STAND_INS = Path(__file__).parent / "stand_ins"
SCORE = {"width": "uniform(1, 20)", "height": "uniform(-100, 100)", "steps": 2}
IMAGES = {"lr": "loguniform(1e-3, 1e-1)", "momentum": "uniform(0.1, 0.9)"}

# module:name -> (metric, space)
EXAMPLES = {
    "custom_checkpointing_with_callback:OptimizationTrainable": ("mean_loss", SCORE),
    "custom_func_checkpointing:train_func": ("mean_loss", SCORE),
    "mnist_pytorch_trainable:TrainMNIST": ("mean_accuracy", IMAGES),
}


@pytest.fixture
def stand_ins(monkeypatch, forget):
    """What the examples download is made up, here and in the workers."""
    monkeypatch.syspath_prepend(STAND_INS)
    forget("torchvision")


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example(path, searched, stand_ins):
    metric, space = EXAMPLES[path]
    results = searched(
        trainable=f"ray.tune.examples.{path}",
        search={"space": space},
        objective={"metric": metric},
        scheduler={"max_t": 2, "grace_period": 2},
        num_samples=1,
    )
    (trial,) = results.trials.values()
    log = results.log_path(trial).read_text()
    assert (trial.status, trial.error) == ("completed", None), log
    assert trial.last_epoch == 2
    assert trial.checkpoints
    assert "Traceback" not in log


class DiesOnce(tune.Trainable):
    """Its process dies in the third step, once: then a file of the trial's says that it has."""

    def setup(self, config):
        self.counted = 0

    def step(self):
        self.counted += 1
        if self.counted == 3 and not Path("died").exists():
            Path("died").touch()
            os._exit(7)
        return {"loss": self.config["lr"] / self.counted, "counted": self.counted}

    def save_checkpoint(self, checkpoint_dir):
        return {"counted": self.counted}

    def load_checkpoint(self, checkpoint):
        self.counted = checkpoint["counted"]

    def cleanup(self):
        Path("cleared").write_text(str(self.counted))


def test_trainable_class_resumes_after_process_death(searched):
    results = searched(
        trainable=DiesOnce,
        search={"strategy": "grid", "space": {"lr": "grid_search([1.0, 2.0])"}},
        objective={"metric": "loss"},
        scheduler={"max_t": 4, "grace_period": 2, "reduction_factor": 2},
    )
    first, second = results.trials.values()
    assert [report.metrics["counted"] for report in first.results] == [1, 2, 3, 4]
    assert (first.status, second.status) == ("completed", "stopped")
    assert second.last_epoch == 2
    for trial in (first, second):
        files = results.folder / "trials" / trial.trial_id / "files"
        assert (files / "cleared").read_text() == str(trial.last_epoch)
    assert (results.folder / "trials/00000/files/died").exists()  # the folder was kept
    best = results.best_checkpoint(first).path
    assert [path.name for path in best.iterdir()] == ["_dict_checkpoint.pkl"]
