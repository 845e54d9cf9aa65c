"""Nodes that leave a search while it runs: one is cut off for a while, one gives notice."""

import time
from collections import Counter

import pytest
import real_nodes
from far_search import PATIENCE_S, ended, reported, tuner, until, working_folder

from tuner.journal import read

pytestmark = pytest.mark.nodes

CUT_S = 20
# One trial a node
SEARCH = ("run", "far.json", "resources.workers=1", "--cpus", "2", "training.epochs=8")


@pytest.fixture
def cluster():
    """A head and a node of 2 CPUs each."""
    with real_nodes.cluster() as made:
        made.start(1)
        made.await_nodes(1)
        made.start(2)
        made.await_nodes(2)
        yield made


def notes(working):
    """What the Learners have noted: (what, address, epoch) in order."""
    lines = map(str.split, (working / "notes").read_text().splitlines())
    return [(what, address, int(epoch)) for what, address, _, epoch in lines]


def test_a_node_that_is_cut_off_for_a_while_costs_no_trial_and_no_report(cluster, tmp_path):
    """Its trial trains on meanwhile, and cannot report."""
    if not cluster.namespaces:
        pytest.skip("a node is cut off by its network namespace, which only root can make")
    working = working_folder(tmp_path)
    folder = working / "results" / "far"
    search = tuner(cluster, working, *SEARCH, "--num-samples", "3", at=cluster.enter(1))
    until(lambda: {("00000", 2), ("00001", 2)} <= set(reported(folder)), search)
    assert {address for _, address, _ in notes(working)} == {
        cluster.address_of(1),
        cluster.address_of(2),
    }
    with cluster.cut(2):
        (working / "open").touch()
        time.sleep(CUT_S)
    code, out, said = ended(search)
    assert code == 0, said
    assert "3 trials: 3 completed" in out, said
    events = list(read(folder))
    assert Counter(e["status"] for e in events if e["event"] == "trial_ended") == {"completed": 3}
    for trial_id in ("00000", "00001", "00002"):
        epochs = [epoch for reporting, epoch in reported(folder) if reporting == trial_id]
        assert epochs == list(range(1, 9))


def test_a_node_that_gives_notice_is_told_and_its_trial_goes_on_elsewhere(cluster, tmp_path):
    """From what it has reported; it trains on until the node is gone."""
    working = working_folder(tmp_path)
    folder = working / "results" / "far"
    search = tuner(cluster, working, *SEARCH, "--num-samples", "2", at=cluster.enter(1))
    until(lambda: {("00000", 2), ("00001", 2)} <= set(reported(folder)), search)
    cluster.nodes[2].shut_down()
    cluster.nodes[2].process.wait(timeout=PATIENCE_S)
    cluster.start(3)
    until(lambda: ("restored", cluster.address_of(3), 2) in notes(working), search)
    (working / "open").touch()
    completed(search, trials=2, folder=folder, leaves=cluster.address_of(2))


def test_no_trial_begins_on_a_node_that_has_given_notice(cluster, tmp_path):
    """Once its last one has ended, so does the node, long before the search."""
    working = working_folder(tmp_path)
    folder = working / "results" / "far"
    search = tuner(cluster, working, *SEARCH, "--num-samples", "6", at=cluster.enter(1))
    until(lambda: {("00000", 2), ("00001", 2)} <= set(reported(folder)), search)
    before = notes(working)
    cluster.drain(2)
    (working / "open").touch()
    completed(search, trials=6, folder=folder, leaves=cluster.address_of(2))
    assert cluster.address_of(2) in {address for _, address, _ in before}
    assert {address for _, address, _ in notes(working)[len(before) :]} == {cluster.address_of(1)}


def completed(search, *, trials, folder, leaves):
    """Make sure that the search ends with every trial, and has told of the node that leaves."""
    code, out, said = ended(search)
    assert code == 0, said
    assert said.count(f"warning: node {leaves} leaves") == 1, said
    assert f"{trials} trials: {trials} completed" in out
    for number in range(trials):
        epochs = [epoch for trial_id, epoch in reported(folder) if int(trial_id) == number]
        assert epochs == list(range(1, 9))
