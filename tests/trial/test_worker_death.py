"""What Ray says of a death, as a failure."""

import socket
from types import SimpleNamespace

import pytest
from ray._private import state, worker
from ray.core.generated.common_pb2 import ActorDeathCause, ActorDiedErrorContext
from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
    RpcError,
)

from tuner.errors import FAILURE_KINDS
from tuner.trial import notes
from tuner.trial import worker_death as deaths
from tuner.trial.worker_death import death_of


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
    monkeypatch.setattr(deaths.ray, "is_initialized", lambda: False)
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
        monkeypatch.setattr(deaths.ray, "is_initialized", lambda: True)
        monkeypatch.setattr(deaths.ray, "nodes", lambda: [{**node, "NodeManagerPort": port}])
        monkeypatch.setattr(state, "actors", lambda actor_id: {"Address": {"NodeID": "n"}})
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
        monkeypatch.setattr(deaths.ray, "is_initialized", lambda: True)
        monkeypatch.setattr(deaths.ray, "nodes", lambda: [node])
        monkeypatch.setattr(deaths.ray, "get_runtime_context", lambda: process)
        monkeypatch.setattr(state, "actors", lambda actor_id: actor)
        assert death_of(ActorUnavailableError("reset by peer", b"f" * 16)).kind == kind


def test_a_node_that_was_taken_back_is_lost(monkeypatch):
    monkeypatch.setattr(deaths.ray, "is_initialized", lambda: True)
    assert death_of(RayActorError("f00", "x", preempted=True)).kind == "node_lost"


@pytest.mark.parametrize(
    ("leaving", "moves"),
    [({}, False), ({"other": 0}, False), ({"mine": 0}, True), ({"other": 0, "ranks": 5}, True)],
)
def test_a_trial_moves_where_one_of_its_nodes_leaves(monkeypatch, leaving, moves):
    client = SimpleNamespace(get_draining_nodes=lambda: leaving)
    process = SimpleNamespace(get_node_id=lambda: "mine")
    placed = {"bundles_to_node_id": {0: "mine", 1: "ranks"}}
    monkeypatch.delenv(notes.FOLDER, raising=False)
    monkeypatch.setattr(deaths.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(deaths.ray, "get_runtime_context", lambda: process)
    monkeypatch.setattr(worker, "global_worker", SimpleNamespace(gcs_client=client))
    monkeypatch.setattr(deaths, "get_current_placement_group", lambda: None)
    monkeypatch.setattr(deaths, "placement_group_table", lambda group: placed)
    assert deaths.must_move() == moves


def test_where_nobody_answers_or_there_is_one_node_a_trial_stays(monkeypatch, tmp_path):
    asked = []

    def fail():
        asked.append(1)
        raise RpcError("unavailable", rpc_code=14)

    client = SimpleNamespace(get_draining_nodes=fail)
    monkeypatch.delenv(notes.FOLDER, raising=False)
    monkeypatch.setattr(deaths.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(worker, "global_worker", SimpleNamespace(gcs_client=client))
    assert not deaths.must_move()
    assert asked == [1]
    monkeypatch.setenv(notes.FOLDER, str(tmp_path))
    assert not deaths.must_move()
    assert asked == [1]
