"""What a node is asked before a search, and what its answers come to."""

import os
from uuid import uuid4

import pytest

from tuner.cluster import preflight
from tuner.cluster.nodes import Node, Reply
from tuner.errors import UsageError
from tuner.experiment.storage import MISSING, marker_in

NODES = [Node(name, f"10.0.0.{name}", 4.0) for name in "12"]


def answering(*answers):
    """Nodes that reply with these: an answer, or a problem."""
    replies = [
        Reply(node, None, answer) if isinstance(answer, str) else Reply(node, answer)
        for node, answer in zip(NODES, answers, strict=True)
    ]
    return lambda *arguments: replies


def refusal(tmp_path, *answers):
    with pytest.raises(UsageError) as refused:
        preflight.refuse_unfit(NODES, tmp_path, "mine:Mine", run=answering(*answers))
    assert list(tmp_path.iterdir()) == []
    return str(refused.value)


def test_refuse_unfit_ignores_module_of_code_by_value(tmp_path):
    modules = []

    def run(nodes, function, marker, module):
        modules.append(module)
        return answering(("", True), ("", True))()

    for trainable in ("__main__:train (by value)", "mine:Mine"):
        preflight.refuse_unfit(NODES, tmp_path, trainable, run=run)
    assert modules == [None, "mine"]


def test_refuse_unfit_lists_all_faults(tmp_path):
    storage, code = "is not shared by all nodes: 1 node, 10.0.0.1 (does not see", "mine:Mine is not"
    message = refusal(tmp_path, (MISSING, False), "no tuner")
    assert "1 node, 10.0.0.2 (no tuner) cannot run trials" in message
    assert storage in message
    assert f"{code} found on 1 node, 10.0.0.1" in message


def test_refuse_unfit_of_bucket_asks_for_access():
    run = answering(*[(MISSING, True)] * 2)
    with pytest.raises(UsageError, match=r"2 nodes, 10\.0\.0\.1 .*what it needs to read and write"):
        preflight.refuse_unfit(NODES, f"memory://{uuid4().hex}", "mine:Mine", run=run)


def test_check_node_writes_to_the_shared_storage(tmp_path):
    with marker_in(tmp_path / "yet" / "to be made") as token:
        assert os.path.dirname(token) == str(tmp_path)
        assert preflight.check_node(token, "json.decoder") == ("", True)
        assert len(os.listdir(token)) == 2
        assert preflight.check_node(token, "no.such.module") == ("", False)
        assert preflight.check_node(token, None) == ("", True)
    assert preflight.check_node(token, "json") == (MISSING, True)
