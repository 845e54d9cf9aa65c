"""Actors that are gone or silent; `test_NAME` fails when Ray changes NAME."""

import inspect
import math
from types import SimpleNamespace

import pytest
import ray
from ray._private.state import GlobalState
from ray.air.execution._internal import RayActorManager
from ray.core.generated.common_pb2 import ActorDeathCause, ActorDiedErrorContext
from ray.core.generated.gcs_pb2 import ActorTableData
from ray.exceptions import ActorDiedError, RayActorError
from ray.tune.execution import tune_controller
from ray_sources import is_in_binaries

from tuner import ray_compat
from tuner.ray_compat import Call, WorkerWatch, workers


def test_deaths():
    assert is_in_binaries(ray_compat.NODE_DIED)
    assert is_in_binaries(ray_compat.PROCESS_DIED)
    context = ActorDiedErrorContext(pid=4711, actor_id=b"f" * 16, class_name="X")
    assert ray_compat.PID.search(str(ActorDiedError(context)))[1] == "4711"


@pytest.mark.parametrize("reason", ["WORKER_DIED", "OUT_OF_SCOPE"])
def test_actor_of(monkeypatch, reason):
    context = ActorDiedErrorContext(reason=ActorDiedErrorContext.Reason.Value(reason))
    actor = ActorTableData(
        death_cause=ActorDeathCause(actor_died_error_context=context)
    )
    actor.address.node_id = b"\xaa"
    accessor = SimpleNamespace(
        get_actor_info=lambda actor_id: actor.SerializeToString()
    )
    monkeypatch.setattr(GlobalState, "_connect_and_get_accessor", lambda self: accessor)
    error = RayActorError("ff" * 16, "gone")
    assert ray_compat.describe_actor_death(error) == ("aa", reason == "WORKER_DIED")
    accessor.get_actor_info = lambda actor_id: None
    assert (
        ray_compat.describe_actor_death(error)
        == ray_compat.describe_actor_death(RayActorError())
        == (None, False)
    )


def test_has_ended(monkeypatch):
    @ray.remote
    class Actor:
        pass

    assert hasattr(Actor.__ray_metadata__.modified_class, "__ray_ready__")
    actor = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=lambda: "called"))
    for ready in ([], ["called"]):
        monkeypatch.setattr(
            ray, "wait", lambda calls, timeout, ready=ready: (ready, calls)
        )
        assert ray_compat.has_ended(actor, 3) == bool(ready)


def test_watched_workers():
    before = tune_controller.RayActorManager
    with ray_compat.watch_workers(WorkerWatch(60)):
        assert issubclass(tune_controller.RayActorManager, before)
        assert tune_controller.RayActorManager is not before
    assert tune_controller.RayActorManager is before
    assert "self._actor_manager = RayActorManager(" in inspect.getsource(
        tune_controller
    )
    source = inspect.getsource(RayActorManager)
    for name in ("next", "schedule_actor_task", "_try_start_actors"):
        assert f"    def {name}(" in source
        assert hasattr(RayActorManager, name)
    for name in ("actors_to_task_futures", "actors_to_state_futures"):
        assert f"self._tracked_{name}[tracked_actor].add(" in source


class Driver:
    """Tune's manager of actors with one worker, a clock, and what Ray is told."""

    def __init__(self, monkeypatch, limit_s=60):
        self.now = 1000.0
        self.killed = []
        self.answered = []
        monkeypatch.setattr(
            workers, "time", SimpleNamespace(monotonic=lambda: self.now)
        )
        monkeypatch.setattr(ray, "kill", self.killed.append)
        monkeypatch.setattr(ray, "wait", self.wait)
        self.watch = WorkerWatch(limit_s)
        with ray_compat.watch_workers(self.watch):
            self.manager = tune_controller.RayActorManager(
                SimpleNamespace(get_resource_futures=list)
            )
        self.manager._looked = self.now
        self.worker = SimpleNamespace(_actor_id=b"\xaa")
        self.tracked = "tracked"
        self.manager._live_actors_to_ray_actors_resources[self.tracked] = (
            self.worker,
            None,
        )

    def wait(self, futures, timeout, num_returns=1):
        done = [future for future in futures if future in self.answered][:num_returns]
        return done, [future for future in futures if future not in done]

    def ask(self, method, future="answer"):
        self.watch.calls["aa"] = Call(method, self.now)
        self.manager._tracked_actors_to_task_futures[self.tracked].add(future)

    def go_on(self, seconds, every_s=1.0):
        for _ in range(round(seconds / every_s)):
            self.now += every_s
            self.manager.next(timeout=0.1)


@pytest.fixture
def driver(monkeypatch):
    return Driver(monkeypatch)


def test_watched_workers_end_a_silent_worker_once(driver):
    driver.ask("train", "of the epoch before")
    driver.answered.append("of the epoch before")
    driver.ask("train")
    driver.go_on(59)
    assert driver.killed == []
    driver.go_on(10)
    assert driver.killed == [driver.worker]
    call = driver.watch.find_call(RayActorError("aa", "killed"))
    assert (call.method, call.made, call.ended) == ("train", 1000.0, True)


def test_watched_workers_note_each_call(driver, monkeypatch):
    monkeypatch.setattr(
        RayActorManager, "_try_start_actors", lambda self, max_actors: 1
    )
    monkeypatch.setattr(
        RayActorManager, "schedule_actor_task", lambda *args, **kwargs: None
    )
    driver.manager._try_start_actors()
    assert driver.watch.calls == {"aa": Call(ray_compat.START, 1000.0)}
    driver.now += 5
    driver.manager.schedule_actor_task(driver.tracked, "train", args=())
    assert driver.watch.calls == {"aa": Call("train", 1005.0)}
    driver.manager.schedule_actor_task("one that was never placed", "stop")
    assert driver.watch.calls == {"aa": Call("train", 1005.0)}


def test_call_names():
    source = inspect.getsource(tune_controller)
    assert f'method_name="{ray_compat.RESET}"' in source


@pytest.mark.parametrize(
    ("method", "start_s", "answered", "seconds", "is_killed"),
    [
        (ray_compat.START, 15, [], 74, False),  # a new process has time to come up
        (ray_compat.START, 15, [], 75, True),
        (ray_compat.START, math.inf, [], 1000, False),  # it waits for a GPU
        ("train", 15, ["answer"], 100, False),  # Tune has yet to read it
        ("train", 15, [], 100, True),
    ],
)
def test_watched_workers_kill_after_the_limit(
    driver, method, start_s, answered, seconds, is_killed
):
    driver.watch.start_s = start_s
    driver.answered = answered
    driver.ask(method)
    driver.go_on(seconds)
    assert bool(driver.killed) == is_killed
