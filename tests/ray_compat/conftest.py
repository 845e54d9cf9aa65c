"""A Ray that has moved, and what is said of it."""

import pytest
import ray

from tuner.ray_compat import pieces


@pytest.fixture
def warnings(caplog, monkeypatch):
    """What is said, as if nothing had been said before."""
    monkeypatch.setattr(pieces, "_warned", set())
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def another_ray(monkeypatch, warnings):
    """A Ray of another patch release than was tried; what is said of it."""
    monkeypatch.setattr(ray, "__version__", "2.60.99")
    return warnings
