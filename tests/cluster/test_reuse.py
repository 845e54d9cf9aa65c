"""Which workers Tune is made to keep; that it does is seen in integration/."""

import pytest
from ray.tune.execution import tune_controller

from tuner.cluster import reuse


@pytest.fixture
def workers():
    return reuse._Workers(may_keep_one=True)


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
    later = reuse.time.monotonic() + 60
    monkeypatch.setattr(reuse.time, "monotonic", lambda: later)
    assert workers.num_cached_objects == 1


def test_a_trainable_is_one_actor_class_that_asks_for_no_environment():
    class Trainable:
        pass

    actors = reuse._PlainActors()
    actor = actors.get(Trainable)
    assert actor is actors.get(Trainable)
    assert actor._default_options.get("runtime_env") is None


@pytest.mark.parametrize("here", [True, False])
def test_tune_is_as_before_afterwards(here):
    names = ("_ObjectCache", "_ActorClassCache")
    before = [getattr(tune_controller, name) for name in names]
    with reuse.workers_kept(here=here):
        assert tune_controller._ObjectCache is reuse._Workers
        assert (tune_controller._ActorClassCache is reuse._PlainActors) == here
    assert [getattr(tune_controller, name) for name in names] == before


def test_another_tune_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr("ray.__version__", "3.0")
    before = tune_controller._ObjectCache
    with reuse.workers_kept(here=True):
        assert tune_controller._ObjectCache is before
