"""Nodes as Ray lists them."""

from tuner.cluster.nodes import Node, list_nodes


def test_list_nodes_sorts_living_nodes_by_address(monkeypatch):
    import ray

    entries = [
        {
            "NodeID": name,
            "NodeManagerAddress": name,
            "Resources": {"CPU": 2.0},
            "Alive": alive,
        }
        for name, alive in (("c", True), ("b", True), ("a", False))
    ]
    entries[0]["Resources"]["node:__internal_head__"] = 1.0
    monkeypatch.setattr(ray, "nodes", lambda: entries)
    assert list_nodes() == [Node("b", "b", 2.0), Node("c", "c", 2.0, is_head=True)]
