"""Waiting for room on a cluster that is played."""

import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
from ray._private import state

from tuner.cluster.joined import autoscaling as growth
from tuner.cluster.joined.nodes import Node
from tuner.errors import UsageError
from tuner.spec.experiment import Resources

SMALL, LARGE = Node("a", "a", 2.0, is_head=True), Node("b", "b", 8.0)
ASKED = Resources(cpus=4)


@pytest.fixture
def play(monkeypatch):
    """A cluster with these nodes at each look, the last ones from then on; what was said."""

    def put(*looks, grows):
        looks = list(looks)
        for look in ("nodes", "all_nodes"):
            monkeypatch.setattr(growth, look, lambda: looks.pop(0) if len(looks) > 1 else looks[0])
        monkeypatch.setattr(growth, "autoscales", lambda there: grows)
        monkeypatch.setattr(growth, "_asked_for", lambda resources: nullcontext())
        monkeypatch.setattr(growth, "_LOOK_EVERY_S", 0.01)
        return []

    return put


def test_what_fits_does_not_wait(play):
    said = play([LARGE], grows=False)
    growth.await_room(ASKED, None, said.append)
    assert said == []


def test_what_never_fits_is_refused_at_once(play):
    said = play([SMALL], grows=False)
    with pytest.raises(UsageError, match=r"reserves 4 CPUs, .* 1 node of 2 CPUs; it does not auto"):
        growth.await_room(ASKED, None, said.append)
    assert said == []


def test_a_cluster_that_autoscales_is_waited_for_and_that_is_said(play):
    said = play([SMALL], [SMALL], [SMALL, LARGE], grows=True)
    growth.await_room(ASKED, None, said.append)
    assert len(said) == 1
    assert "waiting up to 10m 00s: the cluster autoscales" in said[0]


@pytest.mark.parametrize("grows", [True, False])
def test_the_wait_ends(play, grows):
    said = play([SMALL], grows=grows)
    with pytest.raises(UsageError, match="after 0s still a trial reserves 4 CPUs"):
        growth.await_room(ASKED, 0.05, said.append)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("grows", "most", "limits"), [(False, None, [0, 2]), (True, None, [1, 4]), (True, 3, [1, 3])]
)
def test_as_many_may_be_live_as_fit_on_the_nodes_that_are_there(
    play, monkeypatch, grows, most, limits
):
    play([SMALL], [SMALL, LARGE], grows=grows)
    monkeypatch.setattr(growth, "_LOOK_EVERY_S", 0)
    room = growth.Room(ASKED, most=most, grows=grows)
    assert [room(), room()] == limits


def test_the_nodes_are_looked_at_now_and_then_only(play, monkeypatch):
    play([SMALL, LARGE], [], grows=False)
    monkeypatch.setattr(growth, "_LOOK_EVERY_S", 60)
    room = growth.Room(ASKED, most=None, grows=False)
    assert [room(), room()] == [2, 2]


def test_a_node_that_leaves_is_told_and_counts_with_what_is_in_use_there(play, monkeypatch, caplog):
    going = replace(LARGE, leaves=math.inf)
    play([LARGE], [going], [going], grows=False)
    monkeypatch.setattr(growth, "_LOOK_EVERY_S", 0)
    free = {"b": {"CPU": 4.0}}
    monkeypatch.setattr(state, "available_resources_per_node", lambda: free)
    room = growth.Room(ASKED, most=None, grows=False)
    assert [room(), room(), room()] == [2, 1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "node b leaves; its trials go on elsewhere then"
    ]


def test_nodes_that_join_are_greeted_once_each(play, monkeypatch):
    play([SMALL], [SMALL, LARGE], [LARGE], [SMALL, LARGE], grows=False)
    monkeypatch.setattr(growth, "_LOOK_EVERY_S", 0)
    told = []
    room = growth.Room(ASKED, most=None, grows=False, greet=lambda *nodes: told.append(nodes))
    assert [room() for _ in range(4)] == [0, 2, 2, 2]
    assert told == [([LARGE], [SMALL])]


def test_an_autoscaler_is_known_by_its_process_or_by_kuberays_command(monkeypatch, tmp_path):
    monkeypatch.delenv(growth._KUBERAY, raising=False)
    monkeypatch.setattr(growth, "Path", lambda path: tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"python\0monitor.py\0--logs-dir=/x\0")
    assert not growth.has_autoscaler()
    (tmp_path / "7" / "cmdline").write_bytes(b"python\0--autoscaling-config=/x.yaml\0")
    assert growth.has_autoscaler()
    (tmp_path / "7" / "cmdline").unlink()
    monkeypatch.setenv(growth._KUBERAY, "ray start --head --no-monitor ")
    assert growth.has_autoscaler()
