"""A search over nodes that share nothing but an S3: what one has saved, another goes on from."""

import json
import shutil
import time
from pathlib import Path

import pytest
import real_nodes
import stores
from far_search import start

from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import fetch
from tuner.experiment.results.results import load_results
from tuner.places import ROOT

pytestmark = [pytest.mark.nodes, stores.needs_s3]

HERE = Path(__file__).parent
PATIENCE_S = 180
URL = f"{stores.BUCKET}/nodes"


@pytest.fixture(scope="module")
def cluster():
    """A head and a node of 2 CPUs each, with an S3 that both reach; each has a HOME of its own."""
    with real_nodes.cluster() as made, pytest.MonkeyPatch.context() as patch:
        if not made.namespaces:
            pytest.skip(
                "nodes that share no folder need network namespaces: not permitted here"
            )
        server = stores.serve("0.0.0.0")
        for name, value in stores.environment(
            server, host=f"10.213.{made.net}.1"
        ).items():
            patch.setenv(name, value)
        stores.make_bucket()
        home = made.folder / "home"
        home.mkdir()
        patch.setenv("HOME", str(home))
        patch.setenv(ROOT, str(made.folder / "mirror"))  # of this process
        made.start(1)
        made.await_nodes(1)
        made.start(2, private=home)
        made.await_nodes(2)
        yield made
        server.stop()


def begin(cluster, working, trainable, name, **training):
    shutil.copy(HERE / "saving.py", working)
    fields = {
        "trainable": trainable,
        "training": training,
        "search": {"space": {"x": "uniform(0.1, 1)"}},
        "objective": {"metric": "loss"},
        "scheduler": "none",
        "num_samples": 4,
        "storage": URL,
    }
    (working / "far.json").write_text(json.dumps(fields))
    command = ("run", "far.json", "--name", name, "--json")
    return start(cluster, working, *command, at=cluster.enter(1))


def reports(name):
    lines = fetch(Objects(f"{URL}/{name}")).data.splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == "result"]


def ended(driver):
    """Wait for the search, all of whose trials are to complete."""
    out, messages = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, messages
    assert json.loads(out)["counts"]["completed"] == 4


def epochs_of(events):
    return sorted((e["trial_id"], e["epoch"]) for e in events)


def every_epoch(last):
    return [
        (f"{trial:05}", epoch) for trial in range(4) for epoch in range(1, last + 1)
    ]


def test_a_function_on_two_nodes_saves_in_the_store(cluster, tmp_path):
    ended(begin(cluster, tmp_path, "saving:files", "files"))
    assert epochs_of(reports("files")) == every_epoch(5)
    best = load_results("files", URL).best_checkpoint()
    assert (best.path / "inner/counted").read_text() == "5"


def test_checkpoint_of_lost_node_is_resumed_elsewhere(cluster, tmp_path):
    gate = tmp_path / "open"  # so that no trial ends before its node does
    driver = begin(cluster, tmp_path, "saving:Slow", "lost", epochs=12, gate=str(gate))
    deadline = time.monotonic() + PATIENCE_S
    while not all(
        any(e["trial_id"] == f"{t:05}" for e in reports("lost")) for t in range(4)
    ):
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    cluster.nodes[2].kill()
    gate.touch()
    ended(driver)
    events = reports("lost")
    assert epochs_of(events) == every_epoch(12)
    assert all(e["metrics"]["counted"] == e["epoch"] for e in events)
    last = [e["metrics"]["trained"] for e in events if e["epoch"] == 12]
    assert sum(trained < 12 for trained in last) == 2  # of the lost node
    assert min(last) >= 1
