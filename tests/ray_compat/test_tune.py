"""Plain functions and classes of Ray Tune's in a trial; `test_NAME` fails when Ray changes NAME."""

import inspect
import re
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
import ray
from ray import tune
from ray.air._internal import usage
from ray.train._internal import session
from ray.tune import Trainable
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial

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
    from ray.tune.execution import tune_controller

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
    ray_compat.record_parameters(held)
    (registry,) = ray_compat.tune._find_registries(held)
    for _ in range(2):
        in_ray(True)
        registry.flush()  # as ray.init does: what it was made of is dropped
        registry.references.clear()  # and Ray has ended
        ray_compat.record_parameters(held)
        ray_compat.restore_parameters(held)
        assert read(holder) == [1, 2]


def test_no_usage_tags():
    before = usage.tag_callbacks
    with ray_compat.skip_usage_tags():
        assert usage.tag_callbacks([object()]) is False
    assert usage.tag_callbacks is before
    assert "air_usage.tag_callbacks(callbacks)" in inspect.getsource(tune.run)
    assert "air.integrations.wandb" in inspect.getsource(usage)


@pytest.mark.parametrize("here", [True, False])
def test_keep_workers(here):
    names = ("_ObjectCache", "_ActorClassCache")
    before = [getattr(tune_controller, name) for name in names]
    with ray_compat.keep_workers(here=here):
        assert issubclass(tune_controller._ObjectCache, before[0])
        assert tune_controller._ObjectCache is not before[0]
        assert (tune_controller._ActorClassCache is not before[1]) == here
    assert [getattr(tune_controller, name) for name in names] == before
    source = inspect.getsource(tune_controller)
    used = {"cache_object", "flush_cached_objects", "num_cached_objects", "has_cached_object"}
    assert used <= set(re.findall(r"_actor_cache\.(\w+)", source))
    assert "_ActorClassCache()" in source


@pytest.mark.parametrize(("spare", "ended"), [(None, []), (1, [0, 1])])
def test_keep_workers_keeps_spare_workers(spare, ended):
    with ray_compat.keep_workers(here=False, spare=lambda: spare):
        workers = tune_controller._ObjectCache(may_keep_one=True)
    assert [workers.cache_object("cpu", number) for number in range(3)] == [True] * 3
    assert list(workers.flush_cached_objects()) == ended
    left = [number for number in range(3) if number not in ended]
    assert list(workers.flush_cached_objects(force_all=True)) == left
    assert not workers.has_cached_object("cpu")


def test_keep_workers_offers_a_worker_if_one_is_overdue(monkeypatch):
    with ray_compat.keep_workers(here=False):
        workers = tune_controller._ObjectCache(may_keep_one=True)
    workers.cache_object("cpu", 1)
    assert workers.num_cached_objects == 0
    assert workers.has_cached_object("cpu")  # a trial without a worker gets it
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert workers.num_cached_objects == 1


def test_limit_cleanup():
    source = inspect.getsource(tune_controller)
    assert source.count("self._actor_force_cleanup_timeout") == 2  # set, and read later
    controller = SimpleNamespace(_actor_force_cleanup_timeout=10)
    ray_compat.limit_cleanup(SimpleNamespace(_tune_controller=controller), 5)
    assert controller._actor_force_cleanup_timeout == 5


def test_forget_metrics():
    trial = Trial("x", stub=True)
    trial.update_last_result({"training_iteration": 1, "loss": 0.5})
    assert trial.metric_analysis["loss"]
    ray_compat.drop_metrics(trial)
    assert not trial.run_metadata.metric_analysis
    assert not trial.run_metadata.metric_n_steps


def test_limit_pending():
    source = inspect.getsource(tune_controller)
    assert "while len(self._pending_trials) < self._max_pending_trials:" in source
    assert "self._actor_manager.num_pending_actors >= self._max_pending_trials" in source
    controller = SimpleNamespace(_max_pending_trials=3)
    ray_compat.limit_pending(SimpleNamespace(_tune_controller=controller), 0)
    assert controller._max_pending_trials == 0


def test_worker_of():
    trial = Trial("played", stub=True)
    assert ray_compat.find_worker(trial) is None
    trial.temporary_state.ray_actor = "actor"
    assert ray_compat.find_worker(trial) == "actor"
    source = inspect.getsource(tune_controller.TuneController)
    assert "trial.set_ray_actor(" in source
