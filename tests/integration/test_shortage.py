"""A search for which others leave no CPU says who holds them, and goes on when they are free."""

import logging

import pytest

from tuner.search import tune_callbacks

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


def test_it_says_who_holds_the_cpus_and_goes_on_once_they_are_free(hog, searched, monkeypatch):
    import ray

    monkeypatch.setattr(tune_callbacks, "FIRST_S", 1.0)
    said = []

    class Free(logging.Handler):
        """Ends the actor once it is blamed."""

        def emit(self, record):
            said.append(record.getMessage())
            if "held by actor hog" in said[-1]:
                ray.kill(hog)

    handler = Free()
    logger = logging.getLogger("tuner.search.tune_callbacks")
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
    first, second = said[:2]
    assert ": a trial reserves 1 CPU, and the cluster has 1 node of " in first
    assert first.endswith(", of which is free: no node that offers CPUs")
    assert f"{ray.cluster_resources()['CPU']:.4g} CPU" in second
    assert "held by actor hog (pid " in second
    assert not any("no actor or placement group" in line for line in said)
