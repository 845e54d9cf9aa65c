"""A cluster that is joined; `test_NAME` fails when Ray moves what NAME relies on."""

import inspect
from types import SimpleNamespace

from ray import _raylet
from ray._private import services
from ray._raylet import InnerGcsClient
from ray_sources import parameters

from tuner import ray_compat


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
