"""What fits on nodes, and the room as they come and go."""

import pytest

from tuner.cluster.capacity import (
    Capacity,
    Room,
    compute_capacity,
    describe_fit,
    find_shortage,
)
from tuner.cluster.nodes import Node
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


def test_plan_counts_trials_at_once_up_to_their_limit():
    search = {"space": {"x": "uniform(0, 1)"}}
    spec = build_spec({"search": search, "num_samples": 9, "max_concurrent": 3})
    assert describe_fit(spec, TWO)["at_once"] == 3


@pytest.mark.parametrize(
    ("free", "is_short"), [({"CPU": 1.0}, True), ({"CPU": 2.0}, False)]
)
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
    room = Room(
        NEEDED, nodes=nodes, on_join=lambda *nodes: calls.append(nodes), poll_s=0
    )
    assert [room() for _ in range(4)] == [0, 2, 2, 2]
    assert calls == [([LARGE], [SMALL])]
