"""What Ray says of a death, as a failure."""

import os
import socket
from types import SimpleNamespace

import pytest
import ray
from ray._private import state
from ray.core.generated.common_pb2 import ActorDeathCause, ActorDiedErrorContext
from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
)

from tuner.errors import FAILURE_KINDS
from tuner.trial.failures import Failure
from tuner.trial.worker_death import NOTES, build_death_failure, write_note

GONE = RayActorError("f00", "unavailable")
CUT_OFF = ActorUnavailableError("reset by peer", b"f" * 16)


def died(text):
    return RayActorError(error_msg=text)


DEATHS = [
    None,
    died("The actor is dead because its worker process has died."),
    died("The actor died because its node has died. Id: 1"),
    died("an error raised in its creation task,\n no module"),
    NodeDiedError("x"),
    OutOfMemoryError("1 GB used"),
    RuntimeError("could not\n  unpickle"),
]


def test_death_has_kind_and_one_line(snapshot, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    deaths = [build_death_failure(error) for error in DEATHS]
    assert {death.kind for death in deaths} <= {*FAILURE_KINDS}
    snapshot("\n".join(map(str, deaths)))


@pytest.mark.parametrize(
    ("error", "node", "reason", "here", "kind"),
    [
        (GONE, "alive", "UNSPECIFIED", "another", "crash"),
        (GONE, "silent", "UNSPECIFIED", "another", "node_lost"),
        (GONE, "dead", "UNSPECIFIED", "another", "node_lost"),
        # Ray does not know of its end
        (CUT_OFF, "alive", "UNSPECIFIED", "another", "node_lost"),
        # Its trial went elsewhere
        (CUT_OFF, "alive", "OUT_OF_SCOPE", "another", "node_lost"),
        (CUT_OFF, "alive", "WORKER_DIED", "another", "crash"),
        # Nothing cuts off a process of here
        (CUT_OFF, "alive", "UNSPECIFIED", "n", "crash"),
    ],
)
def test_death_of_actor_asks_for_its_node(monkeypatch, error, node, reason, here, kind):
    context = ActorDiedErrorContext(reason=ActorDiedErrorContext.Reason.Value(reason))
    cause = ActorDeathCause(actor_died_error_context=context)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        known = {
            "NodeID": "n",
            "Alive": node != "dead",
            "NodeManagerAddress": "127.0.0.1",
        }
        process = SimpleNamespace(get_node_id=lambda: here)
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(ray, "nodes", lambda: [{**known, "NodeManagerPort": port}])
        monkeypatch.setattr(ray, "get_runtime_context", lambda: process)
        actor = {"Address": {"NodeID": "n"}, "DeathCause": cause}
        monkeypatch.setattr(state, "actors", lambda actor_id: actor)
        if node == "silent":
            server.close()
        assert build_death_failure(error).kind == kind


def test_death_of_preempted_actor_is_node_lost(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    assert (
        build_death_failure(RayActorError("f00", "x", preempted=True)).kind
        == "node_lost"
    )


DIED_HERE = f"its worker process has died. pid: {os.getpid()} namespace: x"


def find_death(death):
    return build_death_failure(RuntimeError(death))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(NOTES, str(tmp_path))
    return tmp_path


def test_death_of_reads_the_note(folder):
    write_note(folder, os.getpid(), Failure("oom", "the most of all"))
    assert find_death(DIED_HERE) == Failure("oom", "the most of all")
    assert find_death("pid: 1 has died").kind == "crash"
    assert find_death("nobody").kind == "crash"


@pytest.mark.parametrize("damage", ["", "x", "{}", "[]"])
def test_damaged_or_missing_note_is_none(folder, monkeypatch, damage):
    (folder / f"{os.getpid()}-oom").write_text(damage)
    assert find_death(DIED_HERE).kind == "crash"
    monkeypatch.setenv(NOTES, str(folder / "gone"))
    assert find_death(DIED_HERE).kind == "crash"
    monkeypatch.delenv(NOTES)
    assert find_death(DIED_HERE).kind == "crash"
