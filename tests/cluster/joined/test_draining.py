"""What is told of nodes that leave, and what of them is still used."""

import math
import time

import pytest
from ray._private import state

from tuner.cluster.joined.draining import Farewell, how_soon, in_use, usable
from tuner.cluster.joined.nodes import Node

STAYS = Node("a", "10.0.0.1", 4.0)
LEAVES = Node("b", "10.0.0.2", 4.0, 2.0, leaves=math.inf)


def test_of_a_node_that_leaves_only_what_is_in_use_counts(monkeypatch):
    free = {"a": {"CPU": 3.0}, "b": {"CPU": 3.0, "GPU": 2.0, "memory": 1e9}}
    monkeypatch.setattr(state, "available_resources_per_node", lambda: free)
    assert usable([STAYS, LEAVES]) == [STAYS, Node("b", "10.0.0.2", 1.0, 0.0, leaves=math.inf)]


def test_where_all_stay_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(state, "available_resources_per_node", lambda: pytest.fail("asked"))
    assert usable([STAYS]) == [STAYS]


def test_a_node_of_which_nothing_is_free_is_all_in_use():
    assert in_use(LEAVES, {}) == LEAVES


def test_each_notice_is_told_once(caplog):
    tell = Farewell()
    other = Node("c", "10.0.0.3", 4.0, leaves=time.time() + 120)
    tell([STAYS, LEAVES])
    tell([STAYS, LEAVES, other])
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "node 10.0.0.2 leaves; its trials go on elsewhere then"
    assert said[1].startswith("node 10.0.0.3 leaves in ")
    assert len(said) == 2


@pytest.mark.parametrize(("leaves", "said"), [(1120.4, " in 2m 00s"), (900, " in 0s")])
def test_how_soon_is_from_now_on(monkeypatch, leaves, said):
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    assert how_soon(leaves) == said
