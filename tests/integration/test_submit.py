"""A search that is sent as a job to the one node of a real cluster."""

import json

import pytest
import real_nodes
from far_search import ended, reported, tuner, working_folder

from tuner import ray_compat


@pytest.fixture
def cluster():
    with real_nodes.cluster() as made:
        made.start(1, dashboard=True)
        made.await_nodes(1)
        yield made


def test_a_search_runs_as_a_job_that_is_followed_and_listed(cluster, tmp_path, monkeypatch):
    for name in ray_compat.FOR_WORKERS:  # they go with the job, and again with its driver
        monkeypatch.setenv(name, ray_compat.SETTINGS[name])
    working = working_folder(tmp_path)
    (working / "open").touch()

    def job(*arguments):
        address = f"http://{cluster.address_of(1)}:{cluster.dashboard}"
        return ended(tuner(cluster, working, *arguments, address=address))

    storage = ("--storage", working / "shared")
    code, _, said = job("submit", "far.json", "resources.workers=1", *storage)
    assert code == 0, said
    assert "1 trial: 1 completed" in said
    assert reported(working / "shared" / "far") == [("00000", epoch) for epoch in (1, 2, 3, 4)]
    [listed] = json.loads(job("jobs", "--json")[1])
    assert listed["status"] == "SUCCEEDED"
