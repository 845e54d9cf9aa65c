"""One Ray for all integration tests; `searched` runs an experiment on it."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/integration/" in item.path.as_posix():
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def ray_here():
    """This process is connected to a Ray of its own, which the driver then uses."""
    from tuner import cluster

    with cluster.connect():
        yield


@pytest.fixture(scope="session")
def searched(ray_here, tmp_path_factory):
    """A function that runs an experiment of the given fields and returns its results."""
    from tuner.driver import run_experiment
    from tuner.spec import build_spec

    def search(**fields):
        storage = str(tmp_path_factory.mktemp("storage"))
        return run_experiment(build_spec({"name": "x", "storage": storage, **fields}))

    return search
