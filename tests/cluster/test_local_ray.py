"""What our own Ray gets ready for a search; how it starts and ends: test_cluster.py."""

import pytest

from tuner.cluster import local_ray as own_ray
from tuner.spec.experiment import build_spec


@pytest.mark.parametrize(
    ("fields", "workers", "trains"),
    [
        ({}, 4, True),
        ({"max_concurrent": 2}, 2, True),
        ({"num_samples": 1}, 1, True),
        ({"resources": {"cpus": 2}}, 2, True),
        ({"resources": {"workers": 2}, "training": {"norm": "group"}}, 6, False),
        ({"trainable": "mine:Learner"}, 4, False),
    ],
)
def test_as_many_workers_as_are_needed_start_ahead_with_what_ships(
    monkeypatch, fields, workers, trains
):
    monkeypatch.setattr(own_ray.Machine, "here", lambda: own_ray.Machine(cpus=4, gpus=0))
    space = {"lr": "uniform(0, 1)"}
    given = {"name": "x", "search": {"space": space}, "num_samples": 9, **fields}
    spec = build_spec(given)
    training = ["tuner.classifier.image_classifier"] if trains else []
    assert own_ray._ahead(spec) == (workers, ["ray.tune", *training])
