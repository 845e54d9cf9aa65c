"""The room of a cluster that is played."""

import subprocess
import sys

import pytest

from tuner.cluster.autoscaling import Room, has_autoscaler
from tuner.cluster.nodes import Node
from tuner.spec.sections import Resources

SMALL, LARGE = Node("a", "a", 2.0, is_head=True), Node("b", "b", 8.0)
NEEDED = Resources(cpus=4)


def played(*polls):
    """What lists these nodes at each poll, the last ones from then on."""
    polls = list(polls)
    return lambda: polls.pop(0) if len(polls) > 1 else polls[0]


@pytest.mark.parametrize(("grows", "limits"), [(False, [0, 2]), (True, [1, 4])])
def test_room_is_the_capacity_of_the_nodes(grows, limits):
    nodes = played([SMALL], [SMALL, LARGE])
    room = Room(NEEDED, nodes=nodes, grows=grows, poll_s=0)
    assert [room(), room()] == limits


def test_room_announces_new_nodes_once():
    calls = []
    nodes = played([SMALL], [SMALL, LARGE], [LARGE], [SMALL, LARGE])
    room = Room(NEEDED, nodes=nodes, on_join=lambda *nodes: calls.append(nodes), poll_s=0)
    assert [room() for _ in range(4)] == [0, 2, 2, 2]
    assert calls == [([LARGE], [SMALL])]


def test_has_autoscaler_by_process_or_kuberay(monkeypatch):
    monkeypatch.delenv("KUBERAY_GEN_RAY_START_CMD", raising=False)
    for argument, known in (("--logs-dir=/x", False), ("--autoscaling-config=/x.yaml", True)):
        code = "import sys; print(flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", code, argument], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as monitor:
            monitor.stdout.readline()
            assert has_autoscaler() is known
            monitor.stdin.close()
    assert not has_autoscaler()
    monkeypatch.setenv("KUBERAY_GEN_RAY_START_CMD", "ray start --head --no-monitor ")
    assert has_autoscaler()
