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
from tuner.trial.worker_death import NOTES, death_of, write_note


def died(text):
    return RayActorError(error_msg=text)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (None, "crash", "its process is gone"),
        (died("The actor is dead because its worker process has died."), "crash", "its process"),
        (died("The actor died because its node has died. Id: 1"), "node_lost", "the node"),
        (died("an error raised in its creation task,\n no module"), "crash", "task, no module"),
        (NodeDiedError("x"), "node_lost", "the node"),
        (OutOfMemoryError("1 GB used"), "oom", "1 GB used"),
        (RuntimeError("could not\n  unpickle"), "crash", "could not unpickle"),
    ],
)
def test_deaths_have_a_kind_and_one_line(monkeypatch, error, kind, message):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    death = death_of(error)
    assert (death.kind, "\n" in death.message) == (kind, False)
    assert message in death.message
    assert kind in FAILURE_KINDS


@pytest.mark.parametrize(
    ("alive", "listens", "kind"),
    [(True, True, "crash"), (True, False, "node_lost"), (False, True, "node_lost")],
)
def test_an_actor_that_is_gone_with_its_node_is_told_so(monkeypatch, alive, listens, kind):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        node = {"NodeID": "n", "Alive": alive, "NodeManagerAddress": "127.0.0.1"}
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(ray, "nodes", lambda: [{**node, "NodeManagerPort": port}])
        actor = {"Address": {"NodeID": "n"}, "DeathCause": ActorDeathCause()}
        monkeypatch.setattr(state, "actors", lambda actor_id: actor)
        if not listens:
            server.close()
        assert death_of(RayActorError("f00", "unavailable")).kind == kind


@pytest.mark.parametrize(
    ("reason", "here", "kind"),
    [
        ("UNSPECIFIED", "another", "node_lost"),  # Ray does not know of its end
        ("OUT_OF_SCOPE", "another", "node_lost"),  # ended since its trial goes on elsewhere
        ("WORKER_DIED", "another", "crash"),
        ("UNSPECIFIED", "n", "crash"),  # nothing comes between two processes of a machine
    ],
)
def test_an_actor_whose_node_can_be_reached_again_was_cut_off(monkeypatch, reason, here, kind):
    context = ActorDiedErrorContext(reason=ActorDiedErrorContext.Reason.Value(reason))
    cause = ActorDeathCause(actor_died_error_context=context)
    actor = {"Address": {"NodeID": "n"}, "DeathCause": cause}
    with socket.create_server(("127.0.0.1", 0)) as server:
        node = {"NodeID": "n", "Alive": True, "NodeManagerAddress": "127.0.0.1"}
        node |= {"NodeManagerPort": server.getsockname()[1]}
        process = SimpleNamespace(get_node_id=lambda: here)
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(ray, "nodes", lambda: [node])
        monkeypatch.setattr(ray, "get_runtime_context", lambda: process)
        monkeypatch.setattr(state, "actors", lambda actor_id: actor)
        assert death_of(ActorUnavailableError("reset by peer", b"f" * 16)).kind == kind


def test_a_node_that_was_taken_back_is_lost(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    assert death_of(RayActorError("f00", "x", preempted=True)).kind == "node_lost"


OURS = f"its worker process has died. pid: {os.getpid()} namespace: x"


def told(death):
    return death_of(RuntimeError(death))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(NOTES, str(tmp_path))
    return tmp_path


def test_what_is_noted_of_a_process_is_why_it_ended(folder):
    write_note(folder, os.getpid(), Failure("oom", "the most of all"))
    assert told(OURS) == Failure("oom", "the most of all")
    assert told("pid: 1 has died").kind == "crash"
    assert told("nobody").kind == "crash"


def test_without_a_folder_nothing_is_found(monkeypatch, tmp_path):
    monkeypatch.delenv(NOTES, raising=False)
    assert told(OURS).kind == "crash"
    monkeypatch.setenv(NOTES, str(tmp_path / "gone"))
    assert told(OURS).kind == "crash"


@pytest.mark.parametrize("damage", ["", "x", "{}", "[]"])
def test_a_damaged_note_is_none(folder, damage):
    (folder / f"{os.getpid()}-oom").write_text(damage)
    assert told(OURS).kind == "crash"
