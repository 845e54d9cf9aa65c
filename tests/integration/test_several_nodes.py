"""One search over several real Ray nodes: joining, nodes that come and go, a head that is lost."""

import json
import time

import pytest
import real_nodes
from far_search import PATIENCE_S, ended, reported, tuner, until, working_folder

from tuner import ray_compat
from tuner.cluster import access, head
from tuner.errors import UsageError
from tuner.experiment.reading import read

pytestmark = pytest.mark.nodes

JOINING = (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH)


@pytest.fixture(scope="module")
def cluster():
    """A head and a node of 2 CPUs each; what lies in `private`, only the latter sees."""
    with real_nodes.cluster() as made:
        (made.folder / "private").mkdir()
        made.start(1, dashboard=True)
        made.await_nodes(1)
        made.start(2, private=made.folder / "private" if made.namespaces else None)
        made.await_nodes(2)
        yield made


@pytest.fixture
def working(tmp_path):
    return working_folder(tmp_path)


def refusal(address, **environment):
    changes = {**dict.fromkeys(JOINING), **environment}
    with (
        access.set_environment(changes),
        access.set_environment(access.create_join_environment()),
    ):
        with pytest.raises(UsageError) as refused:
            head.check_head(address)
        return str(refused.value)


def test_connect_that_cannot_join_names_reason(cluster, working, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # without a token of the user's own
    right = {access.AUTH_MODE: "token", access.TOKEN: cluster.token}
    assert "asks for a token, and none was shown" in refusal(cluster.head)
    assert "another token than that of RAY_AUTH_TOKEN:" in refusal(
        cluster.head, **{**right, access.TOKEN: "0" * 64}
    )
    unused = f"{cluster.address_of(1)}:{real_nodes.free_port()}"
    assert "cannot be reached" in refusal(unused, **right)
    with access.set_environment(right):
        head.check_head(cluster.head)
        from ray._raylet import GcsClient

        client = GcsClient(cluster.head)
        key = b"CLUSTER_METADATA"
        namespace = b"cluster"
        record = client.internal_kv_get(key, namespace)
        older = {**json.loads(record), "ray_version": "2.9.0"}
        client.internal_kv_put(key, json.dumps(older).encode(), True, namespace)
    try:
        code, _, messages = ended(tuner(cluster, working, "validate", "far.json"))
        assert code == 2
        assert "Ray cannot join the cluster at " in messages
        assert "Version mismatch: The cluster was started with: Ray: 2.9.0" in messages
    finally:
        with access.set_environment(right):
            client.internal_kv_put(key, record, True, namespace)


def test_plan_shows_nodes_that_fit(cluster, working):
    code, out, messages = ended(
        tuner(cluster, working, "validate", "far.json", "--json")
    )
    assert code == 0, messages
    plan = json.loads(out)
    assert [(n["address"], n["cpus"], n["trials"]) for n in plan["nodes"]] == [
        (cluster.address_of(1), 2, 0),
        (cluster.address_of(2), 2, 0),
    ]
    assert (plan["at_once"], plan["across_nodes"]) == (1, 1)


def test_run_rejects_impossible_resources_and_unshared_storage(cluster, working):
    too_large = ended(tuner(cluster, working, "run", "far.json", "--cpus", "3"))
    assert too_large[0] == 2
    assert (
        "reserves 3 workers of 3 CPUs, and the cluster has 2 nodes of 2 CPUs"
        in too_large[2]
    )
    if cluster.namespaces:
        storage = ("--storage", cluster.folder / "private")
        apart = ended(tuner(cluster, working, "run", "far.json", *storage))
        assert apart[0] == 2
        assert f"not shared by all nodes: 1 node, {cluster.address_of(2)}" in apart[2]
    assert not (working / "results").exists()


def test_submitted_job_stops_and_resumes(cluster, working, monkeypatch):
    for name in ray_compat.FOR_WORKERS:
        # They go with the job, and again with its driver
        monkeypatch.setenv(name, ray_compat.SETTINGS[name])

    def job(*arguments):
        address = f"http://{cluster.address_of(1)}:{cluster.dashboard}"
        return tuner(cluster, working, *arguments, address=address)

    storage = ("--storage", working / "shared")
    code, job_id, messages = ended(
        job("submit", "far.json", "resources.workers=1", "--no-wait", *storage)
    )
    assert code == 0, messages
    listing = job("jobs", "--json")
    assert [each["job_id"] for each in json.loads(ended(listing)[1])] == [
        job_id.strip()
    ]
    folder = working / "shared/far"
    deadline = time.monotonic() + PATIENCE_S
    while ("00000", 2) not in reported(folder):
        assert time.monotonic() < deadline, ended(job("logs", job_id.strip()))
        time.sleep(0.2)
    assert ended(job("stop", job_id.strip()))[:2][0] == 0
    (working / "open").touch()
    code, resumed, messages = ended(job("submit", "--resume", "far", *storage))
    assert code == 0, messages
    assert "1 trial: 1 completed" in messages
    assert reported(folder) == [("00000", epoch) for epoch in (1, 2, 3, 4)]
    assert "1 trial: 1 completed" in ended(job("logs", resumed.strip()))[1]
    assert json.loads(ended(job("jobs", "--json"))[1])[0]["status"] == "SUCCEEDED"


def test_search_survives_loss_of_node_and_head(cluster, working):
    """Of a driver on a node without CPUs, and a trial of three workers on two others."""
    at = cluster.outside() if cluster.namespaces else ()
    search = tuner(cluster, working, "run", "far.json", at=at)
    folder = working / "results/far"
    until(lambda: ("00000", 2) in reported(folder), search)
    cluster.nodes[2].kill()
    cluster.start(3)
    until(
        lambda: f"restored {cluster.address_of(3)}" in (working / "notes").read_text(),
        search,
    )
    cluster.nodes[1].kill()
    code, _, messages = ended(search)
    assert code == 1
    assert f"the cluster's head at {cluster.head} is gone" in messages
    assert "go on with:" in messages
    cluster.nodes[3].kill()
    cluster.start(1, cpus=3)
    cluster.await_nodes(1)
    (working / "open").touch()
    code, out, messages = ended(
        tuner(cluster, working, "resume", "far", at=cluster.enter(1))
    )
    assert code == 0, messages
    assert "1 trial: 1 completed" in out
    events = list(read(folder))
    assert [e for e in events if e.get("error")] == []
    assert reported(folder) == [("00000", epoch) for epoch in (1, 2, 3, 4)]
    assert {e["metrics"]["ranks"] for e in events if e["event"] == "result"} == {3}
    first = {
        line.split()[1] for line in (working / "notes").read_text().splitlines()[:3]
    }
    assert first == {cluster.address_of(1), cluster.address_of(2)}
