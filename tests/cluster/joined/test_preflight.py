"""What a node is asked before a search, and what its answers come to."""

import os
from uuid import uuid4

import pytest

from tuner.cluster.joined import preflight as survey
from tuner.cluster.joined.nodes import Node
from tuner.cluster.joined.run_on_nodes import Reply
from tuner.errors import UsageError
from tuner.record.remote.objects import Objects

NODES = [Node(name, f"10.0.0.{name}", 4.0) for name in "12"]


def play(monkeypatch, *answers):
    """Nodes that reply with these: an answer, or a problem."""
    replies = [
        Reply(node, None, answer) if isinstance(answer, str) else Reply(node, answer)
        for node, answer in zip(NODES, answers, strict=True)
    ]
    monkeypatch.setattr(survey, "on_each", lambda *arguments: replies)


def refusal(tmp_path):
    with pytest.raises(UsageError) as refused:
        survey.refuse_unfit(NODES, tmp_path, "mine:Mine")
    assert list(tmp_path.iterdir()) == []
    return str(refused.value)


def test_nodes_that_can_run_it_are_not_refused(tmp_path, monkeypatch):
    play(monkeypatch, ("", True), ("", True))
    survey.refuse_unfit(NODES, tmp_path, "mine:Mine")
    assert list(tmp_path.iterdir()) == []


def test_every_fault_of_every_node_is_told(tmp_path, monkeypatch):
    play(monkeypatch, (survey.MISSING, False), "no tuner")
    storage, code = "is not shared by all nodes: 1 node, 10.0.0.1 (does not see", "mine:Mine is not"
    told = refusal(tmp_path)
    assert "1 node, 10.0.0.2 (no tuner) cannot run trials" in told
    assert storage in told
    assert f"{code} found on 1 node, 10.0.0.1" in told


def test_alike_nodes_are_told_together(tmp_path, monkeypatch):
    play(monkeypatch, (survey.MISSING, True), (survey.MISSING, True))
    assert "2 nodes, 10.0.0.1, 10.0.0.2 (does not see" in refusal(tmp_path)


def test_a_node_that_sees_the_token_answers_in_the_storage(tmp_path):
    with survey.token_in(tmp_path / "yet" / "to be made") as token:
        assert token.parent == tmp_path
        assert survey.look(str(token), "json.decoder") == ("", True)
        assert len(list(token.iterdir())) == 2
        assert survey.look(str(token), "no.such.module") == ("", False)
    assert survey.look(str(token), "json") == (survey.MISSING, True)


def test_a_token_of_another_driver_is_none(tmp_path):
    with survey.token_in(tmp_path) as token:
        (token / "driver").write_text("another")
        assert survey.look(str(token), "json") == (survey.MISSING, True)


def test_a_storage_that_cannot_be_written_there_is_told(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(30, "Read-only file system")

    with survey.token_in(tmp_path) as token:
        monkeypatch.setattr(survey.Path, "touch", refuse)
        assert survey.look(str(token), "json")[0] == f"{survey.NOT_WRITABLE}: Read-only file system"


def test_a_storage_that_cannot_be_written_here_is_told(tmp_path):
    (tmp_path / "file").touch()
    token = survey.token_in(tmp_path / "file")
    with pytest.raises(UsageError, match=f"cannot write to {tmp_path / 'file'}: Not a dir"), token:
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_a_node_answers_in_an_object_store():
    url = f"memory://{uuid4().hex}/runs"
    with survey.token_in(url) as token:
        assert token.startswith(f"{url}/.tuner-shared-")
        assert survey.look(token, "json") == ("", True)
        assert len(Objects(token).names()) == 2
        Objects(token).write("driver", b"another")
        assert survey.look(token, "json")[0] == survey.MISSING
    assert Objects(url).names() == []
    assert survey.look(token, "json")[0].startswith(f"{survey.MISSING}: ")


def test_a_store_that_a_node_cannot_use_is_told(monkeypatch):
    url = f"memory://{uuid4().hex}/runs"
    with survey.token_in(url) as token:
        monkeypatch.setattr(Objects, "write", refuse)
        assert survey.look(token, "json")[0] == f"{survey.NOT_WRITABLE}: Access Denied"
        with pytest.raises(UsageError, match=f"cannot write to {url}: Access Denied"):
            survey.token_in(url).__enter__()

    def uninstalled(url):
        raise UsageError("pip install 'tuner[s3]'")

    monkeypatch.setattr(survey, "Objects", uninstalled)
    assert survey.look("s3://b/x", "json")[0] == "pip install 'tuner[s3]'"


def refuse(self, name, data):
    raise PermissionError(0, "Access Denied")


def test_what_to_do_about_a_bucket_is_not_to_mount_it(monkeypatch):
    play(monkeypatch, (survey.MISSING, True), (survey.MISSING, True))
    with pytest.raises(UsageError, match=r"shared by all nodes.*what it needs to read and write"):
        survey.refuse_unfit(NODES, f"memory://{uuid4().hex}", "mine:Mine")
