"""A cluster that is joined; `test_NAME` fails when Ray moves what NAME relies on."""

import inspect
from types import SimpleNamespace

import pytest
from ray import _raylet
from ray._private import services, worker
from ray._private.state import GlobalState
from ray._raylet import InnerGcsClient
from ray.core.generated.gcs_pb2 import ActorTableData
from ray.exceptions import RpcError
from ray_sources import parameters

from tuner import ray_compat
from tuner.errors import UsageError


def test_this_machines_cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert ray_compat.this_machines_cluster() == "10.0.0.1:6379"
    source = inspect.getsource(services.canonicalize_bootstrap_address_or_die)
    assert "raise ConnectionError" in source
    assert "multiple" in source  # from which a message is told from the other


def test_has_node_here(monkeypatch):
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    assert all(isinstance(node_id, str) for node_id in services.find_node_ids())
    assert "timeout" in parameters(InnerGcsClient.get_all_node_info)
    states = GcsNodeInfo.GcsNodeState
    told = {b"\xaa": states.ALIVE, b"\xbb": states.ALIVE, b"\xdd": states.DEAD}
    nodes = {node_id: GcsNodeInfo(state=state) for node_id, state in told.items()}
    head = SimpleNamespace(get_all_node_info=lambda timeout: nodes)
    monkeypatch.setattr(_raylet, "GcsClient", lambda address: head)
    for here, is_up in (({"aa"}, True), ({"cc"}, False), ({"dd"}, False), (set(), False)):
        monkeypatch.setattr(services, "find_node_ids", lambda here=here: here)
        assert ray_compat.has_node_here("head:1", 1) is is_up


def test_draining_nodes(monkeypatch):
    def fail():
        raise RpcError("unavailable", rpc_code=14)

    assert "worker.gcs_client = node.get_gcs_client()" in inspect.getsource(worker.connect)
    assert hasattr(InnerGcsClient, "get_draining_nodes")
    for answer, nodes in ((lambda: {"a": 7}, {"a": 7}), (fail, {})):
        client = SimpleNamespace(get_draining_nodes=answer)
        monkeypatch.setattr(worker, "global_worker", SimpleNamespace(gcs_client=client))
        assert ray_compat.draining_nodes() == nodes


def test_visit_sent_files(tmp_path):
    (tmp_path / "results").mkdir()
    for name in ("mine.py", "ignored.py", "results/x"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("ignored.py\n")

    def visited(gitignore):
        paths = []
        ray_compat.visit_sent_files(tmp_path, ["/results/"], paths.append, gitignore=gitignore)
        return {path.name for path in paths if path.is_file()} - {".gitignore"}

    assert visited(True) == {"mine.py"}
    assert visited(False) == {"mine.py", "ignored.py"}

    def refuse(path):
        raise UsageError("too large")

    with pytest.raises(UsageError):
        ray_compat.visit_sent_files(tmp_path, [], refuse, gitignore=True)


def test_holding_actors(monkeypatch):
    actor = ActorTableData(
        class_name="Hog", pid=7, job_id=b"\1\0\0\0", required_resources={"CPU": 2}
    )
    named = ActorTableData(name="hog", class_name="Hog", pid=8, job_id=b"\1\0\0\0")
    asked = []

    def get_actor_table(job_id, state):
        asked.append((job_id, state))
        return [actor.SerializeToString(), named.SerializeToString()]

    accessor = SimpleNamespace(get_actor_table=get_actor_table)
    monkeypatch.setattr(GlobalState, "_connect_and_get_accessor", lambda self: accessor)
    told = [("Hog", 7, "01000000", {"CPU": 2.0}), ("hog", 8, "01000000", {})]
    assert ray_compat.holding_actors() == told
    assert asked == [(None, "ALIVE")]
    assert "accessor.get_actor_table(job_id, actor_state_name)" in inspect.getsource(GlobalState)


def test_job_of():
    from ray import JobID
    from ray._raylet import PlacementGroupID

    job = JobID.from_int(3)
    assert ray_compat.job_of(PlacementGroupID.of(job).hex()) == job.hex()
