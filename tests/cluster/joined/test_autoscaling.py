"""Waiting for room on a cluster that is played."""

import math
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest

from tuner import ray_compat
from tuner.cluster.joined.autoscaling import Room, await_room, has_autoscaler
from tuner.cluster.joined.nodes import Node
from tuner.errors import UsageError
from tuner.spec.sections import Resources

SMALL, LARGE = Node("a", "a", 2.0, is_head=True), Node("b", "b", 8.0)
ASKED = Resources(cpus=4)


def played(*polls):
    """What lists these nodes at each poll, the last ones from then on."""
    polls = list(polls)
    return lambda: polls.pop(0) if len(polls) > 1 else polls[0]


def notes_of_wait(*polls, grows, patience_s=None):
    notes = []
    await_room(
        ASKED,
        patience_s,
        nodes=played(*polls),
        grows=lambda nodes: grows,
        notify=notes.append,
        request=lambda resources: nullcontext(),
        poll_s=0.01,
    )
    return notes


def test_what_fits_does_not_wait():
    assert notes_of_wait([LARGE], grows=False) == []


def test_what_never_fits_is_refused_at_once():
    with pytest.raises(UsageError, match=r"reserves 4 CPUs, .* 1 node of 2 CPUs; it does not auto"):
        notes_of_wait([SMALL], grows=False)


def test_a_cluster_that_autoscales_is_waited_for_and_that_is_said():
    [note] = notes_of_wait([SMALL], [SMALL], [SMALL, LARGE], grows=True)
    assert "waiting up to 10m 00s: the cluster autoscales" in note


@pytest.mark.parametrize("grows", [True, False])
def test_the_wait_ends(grows):
    with pytest.raises(UsageError, match="after 0s still a trial reserves 4 CPUs"):
        notes_of_wait([SMALL], grows=grows, patience_s=0.05)


@pytest.mark.parametrize(("grows", "limits"), [(False, [0, 2]), (True, [1, 4])])
def test_as_many_may_be_live_as_fit_on_the_nodes_that_are_there(grows, limits):
    nodes = played([SMALL], [SMALL, LARGE])
    room = Room(ASKED, nodes=nodes, grows=grows, poll_s=0)
    assert [room(), room()] == limits


def test_the_nodes_are_looked_at_now_and_then_only():
    room = Room(ASKED, nodes=played([SMALL, LARGE], []), poll_s=60)
    assert [room(), room()] == [2, 2]


def test_a_node_that_leaves_is_told_and_counts_with_what_is_in_use_there(monkeypatch, caplog):
    going = replace(LARGE, leaves=math.inf)
    monkeypatch.setattr(ray_compat, "free_resources", lambda: {"b": {"CPU": 4.0}})
    room = Room(ASKED, nodes=played([LARGE], [going], [going]), poll_s=0)
    assert [room(), room(), room()] == [2, 1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "node b leaves; its trials go on elsewhere then"
    ]


def test_nodes_that_join_are_announced_once_each():
    calls = []
    nodes = played([SMALL], [SMALL, LARGE], [LARGE], [SMALL, LARGE])
    room = Room(ASKED, nodes=nodes, on_join=lambda *nodes: calls.append(nodes), poll_s=0)
    assert [room() for _ in range(4)] == [0, 2, 2, 2]
    assert calls == [([LARGE], [SMALL])]


def test_an_autoscaler_is_known_by_its_process_or_by_kuberays_command(monkeypatch):
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
