"""Ray Tune at the driver; `test_NAME` fails when Ray moves what NAME relies on."""

import inspect
import re
import time
from types import SimpleNamespace

import pytest
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial

from tuner import ray_compat


@pytest.fixture
def workers():
    with ray_compat.keep_workers(here=False):
        return tune_controller._ObjectCache(may_keep_one=True)


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


def test_every_free_worker_is_kept_until_the_search_ends(workers):
    assert [workers.cache_object("cpu", number) for number in range(3)] == [True] * 3
    assert list(workers.flush_cached_objects()) == []
    assert workers.pop_cached_object("cpu") == 0
    assert list(workers.flush_cached_objects(force_all=True)) == [1, 2]
    assert not workers.has_cached_object("cpu")


def test_a_free_worker_is_not_offered_to_a_trial_whose_own_is_starting(workers):
    workers.cache_object("cpu", 1)
    assert workers.num_cached_objects == 0
    assert workers.has_cached_object("cpu")  # a trial without one finds it


def test_one_that_has_waited_long_is_offered_so_that_no_trial_waits_for_ever(workers, monkeypatch):
    workers.cache_object("cpu", 1)
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert workers.num_cached_objects == 1


def test_a_trainable_is_one_actor_class_that_asks_for_no_environment():
    class Trainable:
        pass

    with ray_compat.keep_workers(here=True):
        actors = tune_controller._ActorClassCache()
    actor = actors.get(Trainable)
    assert actor is actors.get(Trainable)
    assert actor._default_options.get("runtime_env") is None


def test_limit_cleanup():
    source = inspect.getsource(tune_controller)
    assert source.count("self._actor_force_cleanup_timeout") == 2  # set, and read later
    controller = SimpleNamespace(_actor_force_cleanup_timeout=10)
    ray_compat.limit_cleanup(SimpleNamespace(_tune_controller=controller), 5)
    assert controller._actor_force_cleanup_timeout == 5


def test_worker_of():
    trial = Trial("played", stub=True)
    assert ray_compat.worker_of(trial) is None
    trial.temporary_state.ray_actor = "actor"
    assert ray_compat.worker_of(trial) == "actor"
    source = inspect.getsource(tune_controller.TuneController)
    assert "trial.set_ray_actor(" in source


def test_forget_metrics():
    trial = Trial("x", stub=True)
    trial.update_last_result({"training_iteration": 1, "loss": 0.5})
    assert trial.metric_analysis["loss"]
    ray_compat.forget_metrics(trial)
    assert not trial.run_metadata.metric_analysis
    assert not trial.run_metadata.metric_n_steps


def test_mlflow_runs():
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    source = inspect.getsource(MLflowLoggerCallback)
    assert "if trial not in self._trial_runs:" in source
    assert "run_id = self._trial_runs[trial]" in source
    assert ray_compat.mlflow_runs(SimpleNamespace(_trial_runs={"a": "b"})) == {"a": "b"}


def test_in_notebook(monkeypatch):
    from ray.tune import progress_reporter
    from ray.widgets import util

    assert ray_compat.in_notebook() is progress_reporter.IS_NOTEBOOK is False
    monkeypatch.setattr(util, "in_notebook", lambda: True)
    assert ray_compat.in_notebook() is True


def test_limit_pending():
    source = inspect.getsource(tune_controller)
    assert "while len(self._pending_trials) < self._max_pending_trials:" in source
    assert "self._actor_manager.num_pending_actors >= self._max_pending_trials" in source
    controller = SimpleNamespace(_max_pending_trials=3)
    ray_compat.limit_pending(SimpleNamespace(_tune_controller=controller), 0)
    assert controller._max_pending_trials == 0


def test_workers_that_are_not_spared_end_at_once():
    with ray_compat.keep_workers(here=False, spare=lambda: 1):
        workers = tune_controller._ObjectCache(may_keep_one=True)
    for number in range(3):
        workers.cache_object("cpu", number)
    assert list(workers.flush_cached_objects()) == [0, 1]
    assert workers.pop_cached_object("cpu") == 2
