"""Plain functions and classes of Ray Tune's in a trial."""

import threading
from types import SimpleNamespace

import pytest
from ray import tune
from ray.train._internal import session
from ray.tune import Trainable
from ray.tune.execution import tune_controller

from tuner import ray_compat


@pytest.fixture
def begin(tmp_path):
    """Begins the function of a trial, and ends it."""
    sessions = []

    def begun(function, checkpoint=None):
        sessions.append(
            ray_compat.FunctionSession(
                function,
                {"a": 1},
                trial=Trainable({}),
                folder=tmp_path / "files",
                checkpoint=checkpoint,
            )
        )
        return sessions[-1]

    yield begun
    for each in sessions:
        assert each.end(60)
    assert session.get_session() is None


def two_epochs(config):
    tune.report({"loss": config["a"]})
    tune.report({"loss": 0.5})


def yields(config):
    yield {"loss": config["a"]}
    yield {"loss": 0.5}


@pytest.mark.parametrize("function", [two_epochs, yields])
def test_next_report_returns_each_report_then_none(begin, function):
    running = begin(function)
    assert running.next_report() == ({"loss": 1}, None)
    assert running.next_report() == ({"loss": 0.5}, None)
    assert running.next_report() is None


@pytest.mark.parametrize(
    "error", [KeyError("mine"), StopIteration("mine"), SystemExit("mine")]
)
def test_next_report_raises_what_the_function_raises(begin, error):
    def failing(config):
        raise error

    with pytest.raises(type(error), match="mine"):
        begin(failing).next_report()


def test_session_answers_the_calls_of_tune(begin, tmp_path):
    def calling(config):
        context = tune.get_context()
        resumed = tune.get_checkpoint().path
        metrics = {"dir": context.get_trial_dir(), "resumed": resumed}
        tune.report(
            metrics, checkpoint=tune.Checkpoint.from_directory(tmp_path / "new")
        )

    report = begin(calling, checkpoint=tmp_path / "old").next_report()
    assert report.metrics == {
        "dir": str(tmp_path / "files"),
        "resumed": str(tmp_path / "old"),
    }
    assert report.checkpoint.path == str(tmp_path / "new")


def test_end_waits_for_cleanup(begin):
    assert begin(two_epochs).end(0)  # it has not begun
    let_end = threading.Event()
    has_ended = []

    def stubborn(config):
        try:
            two_epochs(config)
        finally:
            has_ended.append(let_end.wait(60))

    running = begin(stubborn)
    running.next_report()
    assert not running.end(0)
    let_end.set()
    assert running.end(60)
    assert has_ended == [True]


def test_ended():

    assert ray_compat.build_end_report() == {tune_controller.RESULT_DUPLICATE: True}


class Trained(tune.Trainable):
    def setup(self, config):
        self.a = config["a"]

    def step(self):
        return {"loss": self.a}

    def save_checkpoint(self, checkpoint_dir):
        return {"a": self.a}

    def load_checkpoint(self, checkpoint):
        self.a = checkpoint["a"]


def test_make_class_makes_one_that_trains_and_is_restored(tmp_path):
    info = SimpleNamespace(trial_id="id", trial_name="name", trial_resources=None)
    trial = SimpleNamespace(_trial_info=info)
    made = ray_compat.create_trainable(Trained, {"a": 1}, trial=trial, folder=tmp_path)
    assert isinstance(made, Trained)
    assert (made.logdir, made.trial_id, made.config) == (str(tmp_path), "id", {"a": 1})
    assert ray_compat.train_class(made) == {"loss": 1}
    assert made.iteration == 1
    made.save(str(tmp_path / "kept"))
    other = ray_compat.create_trainable(Trained, {"a": 2}, trial=trial, folder=tmp_path)
    ray_compat.restore_class(other, tmp_path / "kept", iteration=3)
    assert (other.a, other.iteration) == (1, 3)
