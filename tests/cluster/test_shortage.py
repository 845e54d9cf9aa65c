"""Why no trial can start, with the cluster played; a real one is asked in integration/."""

from dataclasses import replace

import pytest

from tuner.cluster.joined.nodes import Node
from tuner.cluster.shortage import Holder, explain
from tuner.spec.sections import Resources

NODES = [Node("a", "10.0.0.1", 4), Node("b", "10.0.0.2", 4, 2)]
HOG = Holder("actor hog (pid 7, job 01)", 3)
GROUP = Holder("placement group (job 02)", 2, 2)


def free(*offers):
    offered = zip(NODES, offers, strict=True)
    return [replace(node, cpus=cpus, gpus=gpus) for node, (cpus, gpus) in offered]


def test_what_is_held_and_by_whom():
    told = explain(Resources(cpus=2), NODES, free((1, 0), (1, 0)), [HOG, GROUP, Holder("x", 1)])
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
    *_, last = explain(Resources(cpus=1), NODES, free((0, 0), (0, 0)), holders)
    assert last.startswith(lost) if lost else "no actor" not in last


def test_where_a_trial_fits_or_just_starts_there_is_nothing_to_say():
    assert explain(Resources(cpus=1), NODES, free((0, 0), (1, 0)), [HOG]) == []
    ours = replace(GROUP, is_ours=True)
    assert explain(Resources(cpus=1), NODES, free((0, 0), (0, 0)), [HOG, ours]) == []
