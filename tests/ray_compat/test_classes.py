"""A class of Ray Tune's as a plain object; `test_NAME` fails when Ray moves what NAME relies on."""

from types import SimpleNamespace

import pytest
from ray import tune

from tuner import ray_compat


class Own(tune.Trainable):
    def setup(self, config):
        self.a = config["a"]

    def step(self):
        if self.a is None:
            raise KeyError("mine")
        return {"loss": self.a}

    def save_checkpoint(self, checkpoint_dir):
        return {"a": self.a}

    def load_checkpoint(self, checkpoint):
        self.a = checkpoint["a"]


@pytest.fixture
def trial():
    info = SimpleNamespace(trial_id="id", trial_name="name", trial_resources=None)
    return SimpleNamespace(_trial_info=info)


def test_make_class(trial, tmp_path):
    made = ray_compat.make_class(Own, {"a": 1}, trial=trial, folder=tmp_path)
    assert isinstance(made, Own)
    assert (made.logdir, made.trial_id, made.config) == (str(tmp_path), "id", {"a": 1})


def test_train_class(trial, tmp_path):
    made = ray_compat.make_class(Own, {"a": 1}, trial=trial, folder=tmp_path)
    assert ray_compat.train_class(made)["loss"] == 1
    assert made.iteration == 1
    made.a = None
    with pytest.raises(KeyError, match="mine"):
        ray_compat.train_class(made)


def test_filled_in(trial, tmp_path):
    made = ray_compat.make_class(Own, {"a": 1}, trial=trial, folder=tmp_path)
    result = ray_compat.train_class(made)
    assert result.keys() - ray_compat.filled_in(made) == {"loss"}


def test_restore_class(trial, tmp_path):
    made = ray_compat.make_class(Own, {"a": 1}, trial=trial, folder=tmp_path)
    made.save(str(tmp_path / "kept"))
    other = ray_compat.make_class(Own, {"a": 2}, trial=trial, folder=tmp_path)
    ray_compat.restore_class(other, tmp_path / "kept", iteration=3)
    assert (other.a, other.iteration) == (1, 3)
