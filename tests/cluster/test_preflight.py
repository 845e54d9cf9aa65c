"""What a node is asked before a search, what its answers come to, and which gives data to which.

Nodes that really copy a data set: integration/test_data_on_nodes.py.
"""

import os
from contextlib import redirect_stderr
from io import StringIO
from types import SimpleNamespace
from uuid import uuid4

import photos
import pytest

from tuner.cluster import preflight
from tuner.cluster.nodes import Node
from tuner.cluster.tasks import Reply
from tuner.errors import DataError, UsageError
from tuner.experiment.shared_storage import MISSING, write_marker
from tuner.search.preparation import prepare
from tuner.vision.datasets._archive import Archive
from tuner.vision.declaration import NeededData
from tuner.vision.image_classifier import ImageClassifier

NODES = [Node(name, f"10.0.0.{name}", 4.0) for name in "12"]

NEED = NeededData(
    Archive("Played", "played.tar", "http://x", "0", "raw", "decoded"), None
)
HAS = (True, False)
LACKS = (False, True)
READY = (False, False)  # READY: it is unpacked there


def answering(*answers):
    """Nodes that reply with these: an answer, or a problem."""
    replies = [
        Reply(node, None, answer) if isinstance(answer, str) else Reply(node, answer)
        for node, answer in zip(NODES, answers, strict=True)
    ]
    return lambda *arguments: replies


def test_refuse_unfit_ignores_module_of_code_by_value(tmp_path):
    modules = []

    def run(nodes, function, marker, module):
        modules.append(module)
        return answering(("", True), ("", True))()

    for trainable in ("__main__:train (by value)", "mine:Mine"):
        preflight.refuse_unfit(NODES, tmp_path, trainable, run=run)
    assert modules == [None, "mine"]


def test_refuse_unfit_lists_all_faults(tmp_path):
    storage = "is not shared by all nodes: 1 node, 10.0.0.1 (does not see"
    code = "mine:Mine is not"
    run = answering((MISSING, False), "no tuner")
    with pytest.raises(UsageError) as refused:
        preflight.refuse_unfit(NODES, tmp_path, "mine:Mine", run=run)
    assert list(tmp_path.iterdir()) == []
    message = str(refused.value)
    assert "1 node, 10.0.0.2 (no tuner) cannot run trials" in message
    assert storage in message
    assert f"{code} found on 1 node, 10.0.0.1" in message


def test_refuse_unfit_of_bucket_asks_for_access(snapshot):
    run = answering(*[(MISSING, True)] * 2)
    with snapshot.raises(UsageError):
        preflight.refuse_unfit(NODES, f"memory://{uuid4().hex}", "mine:Mine", run=run)


def test_check_node_writes_to_the_shared_storage(tmp_path):
    with write_marker(tmp_path / "yet" / "to be made") as token:
        assert os.path.dirname(token) == str(tmp_path)
        assert preflight.check_node(token, "json.decoder") == ("", True)
        assert len(os.listdir(token)) == 2
        assert preflight.check_node(token, "no.such.module") == ("", False)
        assert preflight.check_node(token, None) == ("", True)
    assert preflight.check_node(token, "json") == (MISSING, True)


class World:
    """Nodes 1, 2, ... with what each has; some are offline, some take nothing from others."""

    def __init__(self, *has, cpus=None, offline=(), apart=()):
        self.nodes = [
            Node(str(n), f"10.0.0.{n}", (cpus or {}).get(n, 4.0))
            for n in range(1, len(has) + 1)
        ]
        self.has = {str(n): each for n, each in enumerate(has, 1)}
        self.offline = offline
        self.apart = apart
        self.lines = []
        self.fetched = []
        self.copied = []

    def run(self, nodes, function, need, method, sender=None, limit_s=None):
        assert (function, need) == (preflight.run_method, NEED)
        if method == "receive":
            self.copied.append((sender, [node.node_id for node in nodes]))
        return [self.reply(node, method) for node in nodes]

    def start(self, node, function):
        return SimpleNamespace(remote=lambda need, method: node.node_id)

    def reply(self, node, method):
        name = node.node_id
        if method == "state":
            return Reply(node, self.has[name])
        if method == "download":
            if int(name) in self.offline:
                return Reply(node, None, "no route")
            self.fetched.append(name)
        elif int(name) in self.apart:
            return Reply(node, None, "the disk is full")
        self.has[name] = HAS
        return Reply(node, None)


def distributed(world, driver="1"):
    with redirect_stderr(StringIO()) as printed:
        preflight.distribute_data(
            world.nodes, NEED, driver=driver, run=world.run, start=world.start
        )
    world.lines += printed.getvalue().splitlines()
    return world


def test_distribute_copies_to_nodes_that_lack_it_but_the_driver():
    world = distributed(World(LACKS, HAS, READY, LACKS))
    assert world.fetched == []
    assert world.copied == [("2", ["1", "4"])]
    assert world.lines == ["Played is copied from 10.0.0.2 to 2 nodes that lack it"]
    world = distributed(World(HAS, LACKS, cpus={1: 0.0}))
    assert world.copied == [("1", ["2"])]
    world = distributed(World(LACKS, HAS, cpus={1: 0.0}))
    assert world.copied == []


def test_distribute_downloads_once_and_broadcasts_to_all_others():
    world = distributed(World(*[LACKS] * 9))
    assert world.fetched == ["1"]
    assert world.copied == [("1", [str(n) for n in range(2, 10)])]
    assert set(world.has.values()) == {HAS}
    assert world.lines == [
        "Played is on no node: 10.0.0.1 downloads it",
        "Played is copied from 10.0.0.1 to 8 nodes that lack it",
    ]


class SharedFolder(World):
    """What one node has, all have."""

    def reply(self, node, method):
        reply = super().reply(node, method)
        if method == "download":
            self.has = dict.fromkeys(self.has, HAS)
        return reply


def test_distribute_in_a_shared_folder_downloads_once_and_copies_nothing():
    world = distributed(SharedFolder(LACKS, LACKS, LACKS))
    assert (world.fetched, world.copied) == (["1"], [])


def test_distribute_tries_other_nodes_and_reports_faults(snapshot):
    world = distributed(World(LACKS, LACKS, offline=[1]))
    assert world.fetched == ["2"]
    assert (
        world.lines[1]
        == "Played is on no node: 10.0.0.2 downloads it (10.0.0.1: no route)"
    )
    world = World(*[LACKS] * 5, cpus={5: 0.0}, offline=[1, 2, 3])
    assert distributed(world, driver="5").fetched == ["5"]
    assert world.copied[0] == ("5", ["1", "2", "3", "4"])
    with snapshot.raises(DataError):
        distributed(World(LACKS, LACKS, offline=[1, 2]))
    world = distributed(World(HAS, LACKS, LACKS, apart=[2]))
    assert world.has["3"] == HAS
    assert world.lines[1:] == [
        "Played could not be copied to 10.0.0.2: the disk is full"
    ]


def test_send_to_new_copies_from_a_node_that_trains():
    calls = []

    def start(node, function):
        return SimpleNamespace(
            remote=lambda *v: calls.append((node.node_id, *v)) or "sent"
        )

    others = World(HAS, HAS, cpus={1: 0.0}).nodes
    new = [Node("7", "10.0.0.7", 4.0), Node("8", "10.0.0.8", 0.0)]
    preflight.send_to_new(new, others, NEED, start=start)
    assert calls == [("2", NEED, "load"), ("7", NEED, "receive", "sent")]
    preflight.send_to_new(new, [], NEED, start=start)
    assert len(calls) == 2


def test_decoded_user_images_can_be_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "here"))
    dataset = f"folder:{photos.write(tmp_path / 'photos')}"
    search = {"space": {"batch_size": "choice([4, 8])"}}
    plan = prepare(
        {"training": {"dataset": dataset}, "search": search, "num_samples": 1}
    )
    assert plan.declaration.node_data(plan.spec) == []
    trained = plan.pin_data().trained_spec
    [need] = plan.declaration.node_data(trained)
    assert f"decoded:{need.archive.name}" == trained.constants["dataset"]
    assert need.state() == HAS
    contents = need.load()
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "there"))
    assert need.state() == LACKS
    need.receive(contents)
    assert need.state() == HAS
    learner = ImageClassifier({"batch_size": 8}, {**trained.constants, "model": "cnn"})
    assert 0 <= learner.test()["test_accuracy"] <= 1
