"""Changes of Ray Tune at the driver; `test_NAME` fails when Ray changes NAME."""

import inspect
import re
import time
from types import SimpleNamespace

import pytest
from ray import tune
from ray.air._internal import usage
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial

from tuner import ray_compat


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
    used = {
        "cache_object",
        "flush_cached_objects",
        "num_cached_objects",
        "has_cached_object",
    }
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
    assert (
        "self._actor_manager.num_pending_actors >= self._max_pending_trials" in source
    )
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
