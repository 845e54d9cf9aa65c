"""Nodes as Ray lists them, what fits on them, and functions that run on each."""

import math
import time
from dataclasses import replace

import pytest

from tuner import ray_compat
from tuner.cluster.joined.nodes import (
    Capacity,
    Holder,
    Node,
    capacity,
    how_soon,
    inventory,
    list_nodes,
    node_of,
    plan_on,
    problem_of,
    shortage,
    too_large,
    usable,
)
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Resources

TWO = [Node("a", "10.0.0.1", 4.0, 1.0), Node("b", "10.0.0.2", 4.0)]


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
def test_trials_fit_on_one_node_before_they_lie_on_several(resources, fits):
    assert capacity(Resources(**resources), TWO) == fits


def test_a_node_is_what_ray_tells_of_it():
    told = {
        "NodeID": "f00",
        "NodeManagerAddress": "10.0.0.3",
        "Resources": {"CPU": 8.0, "node:__internal_head__": 1.0},
    }
    assert node_of(told, {}) == Node("f00", "10.0.0.3", 8.0, 0.0, is_head=True)
    assert node_of(told, {"f00": 1500, "f01": 0}).leaves == 1.5
    assert node_of({**told, "NodeID": "f01"}, {"f01": 0}).leaves == math.inf


def test_only_nodes_that_stay_are_counted_on(monkeypatch):
    import ray

    told = [
        {"NodeID": name, "NodeManagerAddress": name, "Resources": {"CPU": 2.0}, "Alive": alive}
        for name, alive in (("c", True), ("b", True), ("a", False))
    ]
    monkeypatch.setattr(ray, "nodes", lambda: told)
    monkeypatch.setattr(ray_compat, "draining_nodes", lambda: {"b": 7000})
    assert list_nodes(draining=True) == [Node("b", "b", 2.0, leaves=7.0), Node("c", "c", 2.0)]
    assert list_nodes() == [Node("c", "c", 2.0)]


def test_what_there_is_is_told_with_alike_nodes_counted():
    same = [Node(name, name, 2.0) for name in "abc"]
    driver = Node("d", "d", 0.0)
    assert inventory([*same, TWO[0], driver]) == "3 nodes of 2 CPUs, 1 node of 4 CPUs and 1 GPU"
    assert inventory([driver]) == "no node that offers CPUs"


def test_what_fits_nowhere_is_told_with_what_there_is():
    several = too_large(Resources(cpus=8, gpus=1, workers=2), TWO[1:])
    assert several == (
        "a trial reserves 2 workers of 8 CPUs and 1 GPU each, and the cluster has 1 node of 4 CPUs"
    )
    assert too_large(Resources(cpus=8), []).startswith("a trial reserves 8 CPUs, and")


def test_a_plan_has_the_nodes_that_offer_something():
    fields = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 9}
    there = [*TWO, Node("d", "d", 0.0)]
    plan = plan_on(build_spec({**fields, "resources": {"cpus": 3}}), there)
    assert [(node["address"], node["trials"]) for node in plan["nodes"]] == [
        ("10.0.0.1", 1),
        ("10.0.0.2", 1),
    ]
    assert (plan["at_once"], plan["across_nodes"]) == (2, 0)
    few = build_spec({**fields, "max_concurrent": 3})
    assert plan_on(few, there)["at_once"] == 3


STAYS = Node("a", "10.0.0.1", 4.0)
LEAVES = Node("b", "10.0.0.2", 4.0, 2.0, leaves=math.inf)


def test_of_a_node_that_leaves_only_what_is_in_use_counts(monkeypatch):
    free = {"a": {"CPU": 3.0}, "b": {"CPU": 3.0, "GPU": 2.0, "memory": 1e9}}
    monkeypatch.setattr(ray_compat, "free_resources", lambda: free)
    assert usable([STAYS, LEAVES]) == [STAYS, Node("b", "10.0.0.2", 1.0, 0.0, leaves=math.inf)]
    monkeypatch.setattr(ray_compat, "free_resources", dict)
    assert usable([STAYS, LEAVES]) == [STAYS, LEAVES]


@pytest.mark.parametrize(("in_s", "said"), [(120.4, " in 2m 00s"), (-100, " in 0s")])
def test_how_soon_is_from_now_on(in_s, said):
    assert how_soon(time.time() + in_s) == said
    assert how_soon(math.inf) == ""


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("ModuleNotFoundError: No module named 'tuner'", "tuner is not installed there"),
        ("x\nModuleNotFoundError: No module named 'tuner.joined'\n", "another version of tuner"),
        ("The node\n\n  has died  \n", "has died"),
        ("", "RuntimeError('')"),
    ],
)
def test_the_reason_is_one_line(said, problem):
    assert problem_of(RuntimeError(said)).startswith(problem)


NODES = [Node("a", "10.0.0.1", 4), Node("b", "10.0.0.2", 4, 2)]
HOG = Holder("actor hog (pid 7, job 01)", 3)
GROUP = Holder("placement group (job 02)", 2, 2)


def free(*offers):
    offered = zip(NODES, offers, strict=True)
    return [replace(node, cpus=cpus, gpus=gpus) for node, (cpus, gpus) in offered]


def test_what_is_held_and_by_whom():
    told = shortage(Resources(cpus=2), NODES, free((1, 0), (1, 0)), [HOG, GROUP, Holder("x", 1)])
    assert told == [
        "a trial reserves 2 CPUs, and the cluster has 1 node of 4 CPUs, "
        "1 node of 4 CPUs and 2 GPUs, of which is free: 2 nodes of 1 CPU",
        "3 CPUs held by actor hog (pid 7, job 01)",
        "2 CPUs and 2 GPUs held by placement group (job 02)",
        "1 CPU held by x",
    ]


@pytest.mark.parametrize(
    ("holders", "lost"),
    [
        (
            [HOG],
            "5 CPUs and 2 GPUs held by no actor or placement group: by tasks, or lost until Ray "
            "is started anew",
        ),
        ([HOG, replace(HOG, cpus=5)], "0 CPUs and 2 GPUs held by no actor or placement group: "),
        ([HOG, GROUP, replace(HOG, cpus=3)], None),
    ],
)
def test_what_is_held_by_nobody(holders, lost):
    *_, last = shortage(Resources(cpus=1), NODES, free((0, 0), (0, 0)), holders)
    assert last.startswith(lost) if lost else "no actor" not in last


def test_where_a_trial_fits_or_just_starts_there_is_nothing_to_say():
    assert shortage(Resources(cpus=1), NODES, free((0, 0), (1, 0)), [HOG]) == []
    ours = replace(GROUP, is_ours=True)
    assert shortage(Resources(cpus=1), NODES, free((0, 0), (0, 0)), [HOG, ours]) == []
