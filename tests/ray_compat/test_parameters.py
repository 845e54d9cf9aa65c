"""What a trainable holds outlives a Ray."""

from functools import partial

import pytest
import ray
from ray import tune

from tuner import ray_compat


class Holding(tune.Trainable):
    def setup(self, config, data=None):
        self.data = data


@pytest.fixture
def in_ray(monkeypatch):
    """A Ray that keeps what is put into it in a list."""
    kept = []
    monkeypatch.setattr(ray, "put", lambda value: kept.append(value) or len(kept) - 1)
    monkeypatch.setattr(ray, "get", lambda number: kept[number])

    def started(is_so):
        monkeypatch.setattr(ray, "is_initialized", lambda: is_so)

    started(False)
    return started


def read(holder):
    if isinstance(holder, type):
        return holder({}).data
    return holder({})


@pytest.mark.parametrize(
    "wrapped", [lambda made: made, partial], ids=["itself", "partial"]
)
@pytest.mark.parametrize(
    "kind", [lambda config, data: data, Holding], ids=["function", "class"]
)
def test_renew_parameters(in_ray, kind, wrapped, monkeypatch, tmp_path):
    monkeypatch.setattr(Holding, "_setup_logdir", lambda self: None)
    holder = tune.with_parameters(kind, data=[1, 2])
    held = wrapped(holder) if not isinstance(holder, type) else holder
    ray_compat.record_parameters(held)
    (registry,) = ray_compat.parameters._find_registries(held)
    for _ in range(2):
        in_ray(True)
        registry.flush()  # as ray.init does: what it was made of is dropped
        registry.references.clear()  # and Ray has ended
        ray_compat.record_parameters(held)
        ray_compat.restore_parameters(held)
        assert read(holder) == [1, 2]
