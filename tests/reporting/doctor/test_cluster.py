"""What the doctor says of a cluster's nodes, from what Ray and they themselves say."""

import math

import pytest

from tuner.cluster.joined.nodes import Node
from tuner.cluster.joined.run_on_nodes import Reply
from tuner.experiment.sharing import MISSING, marker_in
from tuner.reporting.doctor.cluster import Examined, check_nodes, examine_node, of_node
from tuner.reporting.doctor.finding import Finding

NODES = [Node(name, f"10.0.0.{name}", 4.0) for name in "123"]
GPU = Finding("machine", "GPU 0", "A10, 24564 MiB, driver 550")
SHM = Finding("machine", "/dev/shm", "8.0 GiB are free")
OPEN = Finding("open", "all addresses", "raylet, without a token: 70", "warning", "x")


GIB = 1 << 30


@pytest.mark.parametrize(
    ("alive", "leaves", "said", "level"),
    [
        (True, None, "4 CPUs, 1 GPUs, 2.0 GiB of memory", "ok"),
        (True, math.inf, "4 CPUs, 1 GPUs, 2.0 GiB of memory; leaves", "warning"),
        (False, None, "gone", "warning"),
    ],
)
def test_a_node_of_a_cluster_is_told_with_what_it_has(alive, leaves, said, level):
    has = {"CPU": 4.0, "GPU": 1.0, "memory": 2.0 * GIB}
    told = {"NodeID": "f00", "NodeManagerAddress": "10.0.0.1", "Resources": has, "Alive": alive}
    finding = of_node(told, leaves)
    assert (finding.name, finding.found, finding.level) == ("10.0.0.1", said, level)


@pytest.fixture
def checked(tmp_path):
    """What is found where the nodes say this: each differs from a good one as given."""
    own = {"tuner": "1", "torch": "2.13"}
    good = {"versions": own, "clock": 100.0, "apart": ""}

    def check(*changes):
        replies = [
            Reply(node, None, change)
            if isinstance(change, str)
            else Reply(node, Examined(**{**good, "findings": (GPU, SHM), **change}))
            for node, change in zip(NODES, changes, strict=True)
        ]
        return list(check_nodes(NODES, tmp_path, own=own, run=lambda *arguments: replies))

    return check


def test_a_good_node_is_one_line(checked):
    findings = checked({}, {}, {})
    assert [(f.name, f.level) for f in findings] == [(node.address, "ok") for node in NODES]
    assert findings[0].found == (
        "shares the storage; GPU 0: A10, 24564 MiB, driver 550; /dev/shm: 8.0 GiB are free"
    )


def test_what_is_in_order_is_told_beside_what_is_wrong(checked):
    wrong, right, *others = checked({"findings": (OPEN, SHM)}, {"apart": MISSING}, "gone")
    assert (wrong.name, wrong.level) == ("10.0.0.1 all addresses", "warning")
    assert (right.name, right.level) == ("10.0.0.1", "ok")
    assert right.found == "shares the storage; /dev/shm: 8.0 GiB are free"
    assert [f.level for f in others] == ["broken", "broken"]


@pytest.mark.parametrize(
    ("change", "level", "said"),
    [
        ("it did not answer", "broken", "it did not answer"),
        ({"apart": MISSING}, "broken", "does not see what is written there from here: /"),
        ({"versions": {"tuner": "2", "torch": "2.13"}}, "broken", "tuner 2, and here is 1"),
        ({"versions": {"tuner": "1", "torch": ""}}, "broken", "torch is missing, and here is 2.13"),
        ({"versions": {"tuner": "1", "torch": "2.12"}}, "warning", "torch 2.12, and here is 2.13"),
        ({"clock": 160.0}, "warning", "its clock is 60 s off"),
        (
            {"findings": (Finding("machine", "memory", "0.1 GiB are free", "broken", "x"),)},
            "broken",
            "0.1 GiB are free",
        ),
        ({"findings": (OPEN,)}, "warning", "raylet, without a token: 70"),
    ],
)
def test_what_is_wrong_on_one_node_is_told_of_that_one(checked, change, level, said):
    first = checked(change, {}, {})[0]
    assert first.name.startswith("10.0.0.1")
    assert (first.topic, first.level) == ("nodes", level)
    assert said in first.found
    assert first.advice


def test_a_node_tells_of_its_machine_and_the_storage(tmp_path):
    with marker_in(tmp_path) as marker:
        told = examine_node(marker)
    assert told.apart == ""
    names = {"CPUs", "memory", "/dev/shm", "writable", "latency", "disk", "ports"}
    assert names <= {f.name for f in told.findings}
    assert [f.found for f in told.findings if f.name == "writable"] == [str(tmp_path)]
    assert told.versions["tuner"]
    assert examine_node(str(tmp_path / "gone")).apart == MISSING
