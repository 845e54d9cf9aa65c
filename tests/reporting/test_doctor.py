"""The doctor's checks, of a machine and of nodes that are played; integration/ has a real Ray."""

from types import SimpleNamespace
from uuid import uuid4

import psutil
import pytest

from tuner.cluster import access
from tuner.cluster.nodes import Node
from tuner.cluster.tasks import Reply
from tuner.experiment.remote.objects import Objects
from tuner.experiment.shared_storage import MISSING, write_marker
from tuner.reporting.doctor import (
    Examined,
    Finding,
    check_nodes,
    check_setup,
    examine_node,
    format_findings,
)
from tuner.trial import memory_monitor

GIB = 1 << 30
NODES = [Node(name, f"10.0.0.{name}", 4.0) for name in "12"]
GPU = Finding("machine", "GPU 0", "A10, 24564 MiB, driver 550")
MEMORY = Finding("machine", "memory", "0.1 GiB are free", "broken", "x")


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine with room enough and no GPU; its free disk and memory can be changed."""
    room = SimpleNamespace(free=100 * GIB, memory=100 * GIB)
    monkeypatch.setattr(psutil, "disk_usage", lambda folder: room)
    monkeypatch.setattr(
        memory_monitor, "measure_memory", lambda: (room.memory, 200 * GIB)
    )
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(access.AUTH_MODE, raising=False)
    return room


def finding(storage, topic, name):
    [match] = [
        f for f in check_setup(str(storage)) if (f.topic, f.name) == (topic, name)
    ]
    return match


def test_examine_good_machine_has_no_fault(tmp_path):
    findings = check_setup(str(tmp_path))
    assert {finding.level for finding in findings} == {"ok"}
    names = {(finding.topic, finding.name) for finding in findings}
    assert {("versions", n) for n in ("Python", "tuner", "torch", "ray")} <= names
    assert {
        ("machine", n) for n in ("CPUs", "GPUs", "memory", "temporary files")
    } <= names
    assert list(tmp_path.iterdir()) == []


def test_examine_little_memory_or_disk_is_broken(tmp_path, machine):
    machine.free = 1 << 20
    machine.memory = GIB // 2
    assert finding(tmp_path, "machine", "memory").level == "broken"
    assert finding(tmp_path, "machine", "temporary files").level == "broken"
    assert finding(tmp_path, "storage", "writable").level == "broken"


def test_examine_storage_that_cannot_be_written_is_broken(tmp_path):
    assert finding(tmp_path / "not/there", "storage", "writable").level == "ok"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    broken = finding(tmp_path / "file/results", "storage", "writable")
    assert (broken.level, "Not a directory" in broken.found) == ("broken", True)
    assert finding("zz://x", "storage", "writable").level == "broken"


def test_examine_bucket_is_written_and_removed():
    url = f"memory://{uuid4().hex}/runs"
    assert finding(url, "storage", "writable").found == url
    assert Objects(url).list_names() == []


@pytest.fixture
def checked(tmp_path):
    """The findings where the first node's reply differs by `change` from a good reply."""
    versions = {"tuner": "1", "torch": "2.13"}
    good = {"versions": versions, "apart": "", "findings": (GPU,)}

    def check(change):
        first = (
            Reply(NODES[0], None, change)
            if isinstance(change, str)
            else Reply(NODES[0], Examined(**good | change))
        )
        replies = [first, Reply(NODES[1], Examined(**good))]
        return list(
            check_nodes(NODES, tmp_path, here=versions, run=lambda *arguments: replies)
        )

    return check


def test_check_nodes_good_node_is_one_line(checked):
    findings = checked({})
    assert [(f.name, f.level) for f in findings] == [
        (node.address, "ok") for node in NODES
    ]
    assert findings[0].found == "shares the storage; GPU 0: A10, 24564 MiB, driver 550"


@pytest.mark.parametrize(
    "change",
    [
        "it did not answer",
        {"apart": MISSING},
        {"versions": {"tuner": "2", "torch": "2.13"}},
        {"versions": {"tuner": "1", "torch": "2.12"}},
        {"findings": (MEMORY,)},
    ],
)
def test_check_nodes_fault_of_one_node_has_a_line(snapshot, checked, change):
    snapshot(repr(checked(change)[0]))


def test_examine_node_reports_machine_and_storage(tmp_path):
    with write_marker(tmp_path) as marker:
        node = examine_node(marker)
    assert (node.apart, bool(node.versions["tuner"])) == ("", True)
    assert {"CPUs", "memory"} <= {f.name for f in node.findings}
    assert examine_node(str(tmp_path / "gone")).apart == MISSING


def test_findings_text_shows_advice_and_verdict(snapshot):
    good = Finding("machine", "CPUs", "4 of 4")
    slow = Finding("machine", "disk", "slow \x1b[31m", "warning", "buy another")
    broken = Finding("versions", "ray", "not installed", "broken", "pip install ray")
    snapshot(format_findings([good, slow, broken]))
