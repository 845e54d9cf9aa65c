"""A search for which others leave no CPU says so, and goes on when they are free."""

import logging

import pytest

from tuner.search import shortage

SPACE = {"x": "uniform(0, 1)"}


@pytest.fixture
def hog(ray_here):
    """An actor that holds every CPU."""
    import ray

    @ray.remote
    class Hog:
        def is_there(self):
            return True

    actor = Hog.options(num_cpus=ray.cluster_resources()["CPU"], name="hog").remote()
    assert ray.get(actor.is_there.remote())
    yield actor
    ray.kill(actor)


def test_search_waits_for_cpus_that_others_hold(hog, searched, monkeypatch):
    import ray

    monkeypatch.setattr(shortage, "FIRST_S", 1.0)
    messages = []

    class Free(logging.Handler):
        """Ends the actor once the search says that it waits."""

        def emit(self, record):
            messages.append(record.getMessage())
            ray.kill(hog)

    handler = Free()
    logger = logging.getLogger("tuner.search.shortage")
    logger.addHandler(handler)
    try:
        results = searched(
            trainable="processes:tell",
            search={"space": SPACE},
            objective={"metric": "val_loss", "mode": "min"},
            scheduler="none",
            num_samples=1,
        )
    finally:
        logger.removeHandler(handler)
    assert results.status == "completed"
    assert ": a trial reserves 1 CPU, and the cluster has 1 node of " in messages[0]
    assert messages[0].endswith("; free now: nothing")
