"""Nodes as Ray lists them, what fits on them, and functions that run on each."""

import subprocess
import sys

import pytest

from tuner.cluster.nodes import (
    Capacity,
    Node,
    Room,
    compute_capacity,
    describe_fit,
    describe_ray_error,
    find_shortage,
    has_autoscaler,
    list_nodes,
)
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Resources

TWO = [Node("a", "10.0.0.1", 4.0, 1.0), Node("b", "10.0.0.2", 4.0)]

SMALL, LARGE = Node("a", "a", 2.0, is_head=True), Node("b", "b", 8.0)
NEEDED = Resources(cpus=4)


@pytest.mark.parametrize(
    ("resources", "fits"),
    [
        ({}, Capacity((4, 4), 0)),
        ({"cpus": 3}, Capacity((1, 1), 0)),  # what is left of two nodes is no third
        ({"workers": 3}, Capacity((1, 1), 0)),
        ({"workers": 8}, Capacity((0, 0), 1)),
        ({"workers": 5}, Capacity((0, 0), 1)),
        ({"cpus": 1.5, "workers": 4}, Capacity((0, 0), 1)),
        ({"gpus": 0.25}, Capacity((4, 0), 0)),
        ({"gpus": 1, "workers": 2}, Capacity((0, 0), 0)),
        ({"cpus": 2, "split": 3}, Capacity((0, 0), 1)),
    ],
)
def test_capacity_fills_single_nodes_first(resources, fits):
    assert compute_capacity(Resources(**resources), TWO) == fits


def test_list_nodes_sorts_living_nodes_by_address(monkeypatch):
    import ray

    entries = [
        {"NodeID": name, "NodeManagerAddress": name, "Resources": {"CPU": 2.0}, "Alive": alive}
        for name, alive in (("c", True), ("b", True), ("a", False))
    ]
    entries[0]["Resources"]["node:__internal_head__"] = 1.0
    monkeypatch.setattr(ray, "nodes", lambda: entries)
    assert list_nodes() == [Node("b", "b", 2.0), Node("c", "c", 2.0, is_head=True)]


def test_plan_on_lists_nodes_with_cpus():
    fields = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 9}
    there = [*TWO, Node("d", "d", 0.0)]
    plan = describe_fit(build_spec({**fields, "resources": {"cpus": 3}}), there)
    assert [(node["address"], node["trials"]) for node in plan["nodes"]] == [
        ("10.0.0.1", 1),
        ("10.0.0.2", 1),
    ]
    assert (plan["at_once"], plan["across_nodes"]) == (2, 0)
    few = build_spec({**fields, "max_concurrent": 3})
    assert describe_fit(few, there)["at_once"] == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ModuleNotFoundError: No module named 'tuner'", "tuner is not installed there"),
        ("x\nModuleNotFoundError: No module named 'tuner.joined'\n", "another version of tuner"),
        ("The node\n\n  has died  \n", "has died"),
        ("", "RuntimeError('')"),
    ],
)
def test_problem_of_is_one_line(text, problem):
    assert describe_ray_error(RuntimeError(text)).startswith(problem)


@pytest.mark.parametrize(("free", "is_short"), [({"CPU": 1.0}, True), ({"CPU": 2.0}, False)])
def test_shortage_names_free_resources(free, is_short):
    reason = find_shortage(Resources(cpus=2), lambda: TWO, lambda: {"a": free})
    if is_short:
        assert reason.endswith("1 node of 4 CPUs; free now: 1 node of 1 CPU")
    else:
        assert reason is None


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
