"""What a node is asked before a search, and what its answers come to."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from tuner.cluster.joined import preflight
from tuner.cluster.joined.nodes import Node
from tuner.cluster.joined.run_on_nodes import Reply
from tuner.errors import UsageError
from tuner.record.remote.objects import Objects

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


def test_nodes_that_can_run_it_are_not_refused(tmp_path):
    run = answering(("", True), ("", True))
    preflight.refuse_unfit(NODES, tmp_path, "mine:Mine", run=run)
    assert list(tmp_path.iterdir()) == []


def test_every_fault_of_every_node_is_told(tmp_path):
    storage, code = "is not shared by all nodes: 1 node, 10.0.0.1 (does not see", "mine:Mine is not"
    told = refusal(tmp_path, (preflight.MISSING, False), "no tuner")
    assert "1 node, 10.0.0.2 (no tuner) cannot run trials" in told
    assert storage in told
    assert f"{code} found on 1 node, 10.0.0.1" in told


def test_alike_nodes_are_told_together(tmp_path):
    told = refusal(tmp_path, *[(preflight.MISSING, True)] * 2)
    assert "2 nodes, 10.0.0.1, 10.0.0.2 (does not see" in told


def test_a_node_that_sees_the_token_answers_in_the_storage(tmp_path):
    with preflight.marker_in(tmp_path / "yet" / "to be made") as token:
        assert os.path.dirname(token) == str(tmp_path)
        assert preflight.check_node(token, "json.decoder") == ("", True)
        assert len(os.listdir(token)) == 2
        assert preflight.check_node(token, "no.such.module") == ("", False)
    assert preflight.check_node(token, "json") == (preflight.MISSING, True)


def test_a_token_of_another_driver_is_none(tmp_path):
    with preflight.marker_in(tmp_path) as token:
        Path(token, "driver").write_text("another")
        assert preflight.check_node(token, "json") == (preflight.MISSING, True)


def test_a_storage_that_cannot_be_written_there_is_told(tmp_path, monkeypatch):
    def refuse(path, data):
        raise OSError(30, "Read-only file system")

    with preflight.marker_in(tmp_path) as token:
        monkeypatch.setattr(Path, "write_bytes", refuse)
        assert (
            preflight.check_node(token, "json")[0]
            == f"{preflight.NOT_WRITABLE}: Read-only file system"
        )


def test_a_storage_that_cannot_be_written_here_is_told(tmp_path):
    (tmp_path / "file").touch()
    token = preflight.marker_in(tmp_path / "file")
    with pytest.raises(UsageError, match=f"cannot write to {tmp_path / 'file'}: Not a dir"), token:
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_a_node_answers_in_an_object_store():
    url = f"memory://{uuid4().hex}/runs"
    with preflight.marker_in(url) as token:
        assert token.startswith(f"{url}/.tuner-shared-")
        assert preflight.check_node(token, "json") == ("", True)
        assert len(Objects(token).names()) == 2
        Objects(token).write("driver", b"another")
        assert preflight.check_node(token, "json")[0] == preflight.MISSING
    assert Objects(url).names() == []
    assert preflight.check_node(token, "json")[0].startswith(f"{preflight.MISSING}: ")


def test_a_store_that_a_node_cannot_use_is_told(monkeypatch):
    url = f"memory://{uuid4().hex}/runs"
    with preflight.marker_in(url) as token:
        monkeypatch.setattr(Objects, "write", refuse)
        assert preflight.check_node(token, "json")[0] == f"{preflight.NOT_WRITABLE}: Access Denied"
        with pytest.raises(UsageError, match=f"cannot write to {url}: Access Denied"):
            preflight.marker_in(url).__enter__()

    assert preflight.check_node("zz://b/x", "json")[0].startswith("no storage 'zz://b/x':")


def refuse(self, name, data):
    raise PermissionError(0, "Access Denied")


def test_what_to_do_about_a_bucket_is_not_to_mount_it():
    run = answering(*[(preflight.MISSING, True)] * 2)
    with pytest.raises(UsageError, match=r"shared by all nodes.*what it needs to read and write"):
        preflight.refuse_unfit(NODES, f"memory://{uuid4().hex}", "mine:Mine", run=run)
