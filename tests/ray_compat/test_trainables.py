"""Plain functions and classes of Ray Tune's in a trial; `test_NAME` fails when Ray changes NAME."""

import threading
from functools import partial
from types import SimpleNamespace

import pytest
import ray
from ray import tune
from ray.train._internal import session
from ray.tune import Trainable

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


@pytest.mark.parametrize("error", [KeyError("mine"), StopIteration("mine"), SystemExit("mine")])
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
        tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(tmp_path / "new"))

    report = begin(calling, checkpoint=tmp_path / "old").next_report()
    assert report.metrics == {"dir": str(tmp_path / "files"), "resumed": str(tmp_path / "old")}
    assert report.checkpoint.path == str(tmp_path / "new")


def test_end_waits_for_cleanup(begin):
    assert begin(two_epochs).end(0)  # it has not begun
    let_end, has_ended = threading.Event(), []

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
    from ray.tune.execution import tune_controller

    assert ray_compat.ended() == {tune_controller.RESULT_DUPLICATE: True}


class Trained(tune.Trainable):
    def setup(self, config):
        self.a = config["a"]

    def step(self):
        return {"loss": self.a}

    def save_checkpoint(self, checkpoint_dir):
        return {"a": self.a}

    def load_checkpoint(self, checkpoint):
        self.a = checkpoint["a"]


@pytest.fixture
def tune_trial():
    info = SimpleNamespace(trial_id="id", trial_name="name", trial_resources=None)
    return SimpleNamespace(_trial_info=info)


def test_make_class(tune_trial, tmp_path):
    made = ray_compat.make_class(Trained, {"a": 1}, trial=tune_trial, folder=tmp_path)
    assert isinstance(made, Trained)
    assert (made.logdir, made.trial_id, made.config) == (str(tmp_path), "id", {"a": 1})


def test_train_class(tune_trial, tmp_path):
    made = ray_compat.make_class(Trained, {"a": 1}, trial=tune_trial, folder=tmp_path)
    assert ray_compat.train_class(made) == {"loss": 1}
    assert made.iteration == 1


def test_restore_class(tune_trial, tmp_path):
    made = ray_compat.make_class(Trained, {"a": 1}, trial=tune_trial, folder=tmp_path)
    made.save(str(tmp_path / "kept"))
    other = ray_compat.make_class(Trained, {"a": 2}, trial=tune_trial, folder=tmp_path)
    ray_compat.restore_class(other, tmp_path / "kept", iteration=3)
    assert (other.a, other.iteration) == (1, 3)


class Holding(tune.Trainable):
    def setup(self, config, data=None):
        self.data = data


@pytest.fixture
def in_ray(monkeypatch):
    """A Ray that keeps what is put into it in a list."""
    kept = []
    monkeypatch.setattr(ray, "put", lambda value: kept.append(value) or len(kept) - 1)
    monkeypatch.setattr(ray, "get", lambda number: kept[number])

    def started(is_so):
        monkeypatch.setattr(ray, "is_initialized", lambda: is_so)

    started(False)
    return started


def read(holder):
    if isinstance(holder, type):
        return holder({}).data
    return holder({})


@pytest.mark.parametrize("wrapped", [lambda made: made, partial], ids=["itself", "partial"])
@pytest.mark.parametrize("kind", [lambda config, data: data, Holding], ids=["function", "class"])
def test_renew_parameters(in_ray, kind, wrapped, monkeypatch, tmp_path):
    monkeypatch.setattr(Holding, "_setup_logdir", lambda self: None)
    holder = tune.with_parameters(kind, data=[1, 2])
    held = wrapped(holder) if not isinstance(holder, type) else holder
    ray_compat.note_parameters(held)
    (registry,) = ray_compat.trainables._registries(held)
    for _ in range(2):
        in_ray(True)
        registry.flush()  # as ray.init does: what it was made of is dropped
        registry.references.clear()  # and Ray has ended
        ray_compat.note_parameters(held)
        ray_compat.renew_parameters(held)
        assert read(holder) == [1, 2]
