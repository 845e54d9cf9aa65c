"""What our own Ray gets ready for a search; how it starts and ends: test_connect.py."""

import socket

import pytest

from tuner.cluster.local_ray import free_port, ready_workers
from tuner.spec.experiment import build_spec
from tuner.spec.validation import Machine


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
def test_ready_workers_are_those_that_the_spec_needs(fields, workers, trains):
    space = {"lr": "uniform(0, 1)"}
    values = {"name": "x", "search": {"space": space}, "num_samples": 9, **fields}
    spec = build_spec(values)
    training = ["tuner.vision.image_classifier"] if trains else []
    assert ready_workers(spec, Machine(cpus=4, gpus=0)) == (workers, ["ray.tune", *training])


def test_free_port_is_reserved():
    with free_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as agent:
            agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            agent.bind(("127.0.0.1", port))
            agent.listen()
