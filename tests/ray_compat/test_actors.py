"""Actors that are gone; `test_NAME` fails when Ray moves what NAME relies on."""

from types import SimpleNamespace

import pytest
import ray
from ray._private.state import GlobalState
from ray.core.generated.common_pb2 import ActorDeathCause, ActorDiedErrorContext
from ray.core.generated.gcs_pb2 import ActorTableData
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError
from ray_sources import is_in_binaries

from tuner import ray_compat


def test_deaths():
    assert is_in_binaries(ray_compat.NODE_DIED)
    assert is_in_binaries(ray_compat.PROCESS_DIED)
    context = ActorDiedErrorContext(pid=4711, actor_id=b"f" * 16, class_name="X")
    assert ray_compat.PID.search(str(ActorDiedError(context)))[1] == "4711"


@pytest.mark.parametrize("reason", ["WORKER_DIED", "OUT_OF_SCOPE"])
def test_actor_of(monkeypatch, reason):
    context = ActorDiedErrorContext(reason=ActorDiedErrorContext.Reason.Value(reason))
    actor = ActorTableData(death_cause=ActorDeathCause(actor_died_error_context=context))
    actor.address.node_id = b"\xaa"
    accessor = SimpleNamespace(get_actor_info=lambda actor_id: actor.SerializeToString())
    monkeypatch.setattr(GlobalState, "_connect_and_get_accessor", lambda self: accessor)
    error = RayActorError("ff" * 16, "gone")
    assert ray_compat.actor_of(error) == ("aa", reason == "WORKER_DIED")
    accessor.get_actor_info = lambda actor_id: None
    assert ray_compat.actor_of(error) == ray_compat.actor_of(RayActorError()) == (None, False)


def test_has_ended(monkeypatch):
    @ray.remote
    class Actor:
        pass

    assert hasattr(Actor.__ray_metadata__.modified_class, "__ray_ready__")
    for answer, ended in ((GetTimeoutError(), False), (RayActorError(), True)):

        def get(call, timeout, answer=answer):
            assert (call, timeout) == ("called", 3)
            raise answer

        monkeypatch.setattr(ray, "get", get)
        method = SimpleNamespace(remote=lambda: "called")
        assert ray_compat.has_ended(SimpleNamespace(__ray_ready__=method), 3) is ended
