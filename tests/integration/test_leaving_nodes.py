"""Nodes that leave a search while it runs: one is cut off for a while, one shuts down."""

import time
from collections import Counter

import pytest
import real_nodes
from far_search import PATIENCE_S, ended, reported, tuner, until, working_folder

from tuner.experiment.reading import read

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


@pytest.fixture
def searching(cluster, tmp_path):
    """Starts a search of so many trials; what it says is in the file `said` of its folder."""
    working = working_folder(tmp_path)

    def start(trials):
        command = (*SEARCH, "--num-samples", str(trials))
        with (working / "said").open("w") as stderr_file:
            search = tuner(
                cluster, working, *command, at=cluster.enter(1), stderr=stderr_file
            )
        until(
            lambda: {("00000", 2), ("00001", 2)} <= set(reported(results(working))),
            search,
        )
        addresses = {address for _, address, _ in notes(working)}
        assert addresses == {cluster.address_of(1), cluster.address_of(2)}
        return working, search

    return start


def results(working):
    return working / "results/far"


def stderr_of(working):
    return (working / "said").read_text()


def completed(working, search, trials):
    """Make sure that the search ends with every trial, and no epoch lost or told twice."""
    code, out, _ = ended(search)
    assert code == 0, stderr_of(working)
    assert f"{trials} trials: {trials} completed" in out
    events = list(read(results(working)))
    statuses = Counter(e["status"] for e in events if e["event"] == "trial_ended")
    assert statuses == {"completed": trials}
    for number in range(trials):
        epochs = [
            e for trial_id, e in reported(results(working)) if int(trial_id) == number
        ]
        assert epochs == list(range(1, 9))


def test_node_cut_off_briefly_loses_no_report(cluster, searching):
    """Its trial trains on meanwhile, and cannot report."""
    if not cluster.namespaces:
        pytest.skip(
            "a node is cut off by its network namespace, which only root can make"
        )
    working, search = searching(3)
    with cluster.cut(2):
        (working / "open").touch()
        time.sleep(CUT_S)
    completed(working, search, 3)


def test_trial_of_a_node_that_shuts_down_continues_elsewhere(cluster, searching):
    """From its newest checkpoint; it trains on until the node is gone."""
    working, search = searching(2)
    cluster.nodes[2].shut_down()
    cluster.nodes[2].process.wait(timeout=PATIENCE_S)
    cluster.start(3)
    restored = ("restored", cluster.address_of(3))
    until(
        lambda: restored in {(what, address) for what, address, _ in notes(working)},
        search,
    )
    (working / "open").touch()
    completed(working, search, 2)
