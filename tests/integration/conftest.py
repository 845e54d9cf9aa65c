"""One Ray for all integration tests; `searched` runs an experiment on it."""

import time
from contextlib import ExitStack
from pathlib import Path

import gated
import pytest
import several_ranks

HERE = Path(__file__).parent
SETTLE_S = 4  # for Ray to count what the test before has given back


class OurRay:
    """A Ray of this process's own, begun anew where it has lost CPUs.

    Ray 2.60 loses those of a placement group that is removed while a worker starts in it, as at the
    end of a search that is interrupted. A search that needs them all would then wait for ever.
    """

    def __init__(self):
        self._connection = ExitStack()

    def connect(self):
        from tuner.cluster import connect as cluster

        self._connection.enter_context(cluster.connect())

    def close(self):
        self._connection.close()

    def heal(self):
        """Return when nothing is missing that nobody holds; connect again if a test has left."""
        import ray

        if not ray.is_initialized():
            self.close()
            self.connect()
        deadline = time.monotonic() + SETTLE_S
        while _is_short() and not _is_in_use():
            if time.monotonic() > deadline:
                self.close()
                self.connect()
                return
            time.sleep(0.05)


def _is_short():
    import ray

    return ray.available_resources().get("CPU", 0) < ray.cluster_resources()["CPU"]


def _is_in_use():
    """Whether anything lives that may hold CPUs."""
    from ray._private import state
    from ray.util import placement_group_table

    groups = (group["state"] for group in placement_group_table().values())
    actors = (actor["State"] for actor in state.actors().values())
    return any(s != "REMOVED" for s in groups) or any(s != "DEAD" for s in actors)


@pytest.fixture(scope="session")
def ray_here(request):
    """This process is connected to a Ray of its own, which the driver then uses."""
    ours = request.config.stash[RAY] = OurRay()
    ours.connect()
    yield
    del request.config.stash[RAY]
    ours.close()


RAY = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if RAY in item.config.stash and "ray_here" in item.fixturenames:
        item.config.stash[RAY].heal()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Leave Ray before a test of another folder: it would be used in place of any address."""
    if RAY in item.config.stash and (
        nextitem is None or HERE not in nextitem.path.parents
    ):
        item.config.stash[RAY].close()


@pytest.fixture(scope="session")
def searched(ray_here, tmp_path_factory):
    """A function that runs an experiment of the given fields and returns its results.

    One trial at a time by default: a process takes longer to start than to train.
    """
    from tuner.search.run import run_experiment
    from tuner.spec.experiment import build_spec

    def search(**fields):
        storage = str(tmp_path_factory.mktemp("storage"))
        return run_experiment(
            build_spec({"name": "x", "storage": storage, "max_concurrent": 1, **fields})
        )

    return search


@pytest.fixture(scope="session")
def gated_whole(searched, tmp_path_factory):
    """The search of gated.py with nothing in its way, one trial at a time."""
    folder = tmp_path_factory.mktemp("whole")
    gated.open_gate(folder)
    return searched(**{**gated.spec(folder, max_concurrent=1), "name": "whole"})


@pytest.fixture(scope="session")
def of_two_workers(searched):
    """A search whose one trial trains in two processes."""
    return several_ranks.search_digits(searched, workers=2)
