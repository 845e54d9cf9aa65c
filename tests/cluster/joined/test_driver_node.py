"""A driver's own node, with Ray played; a real one takes part in integration/."""

import sys
from contextlib import contextmanager

import pytest

from tuner.cluster.joined import driver_node as outpost
from tuner.errors import UsageError


@pytest.fixture
def ended(monkeypatch):
    """What the guard was asked to end."""
    asked = []
    monkeypatch.setattr(outpost.guard, "end", lambda *arguments: asked.append(arguments))
    return asked


@contextmanager
def ray_that(monkeypatch, code):
    """In place of `ray start`, a process of this Python code."""
    start = outpost.subprocess.Popen
    monkeypatch.setattr(
        outpost.subprocess,
        "Popen",
        lambda command, **options: start([sys.executable, "-c", code], **options),
    )
    yield


def test_it_lasts_as_long_as_its_context(monkeypatch, tmp_path, ended):
    looks = iter([False, True])
    monkeypatch.setattr(outpost, "is_here", lambda head: next(looks))
    with ray_that(monkeypatch, "pass"):
        monkeypatch.setattr(outpost, "_LOOK_EVERY_S", 0)
        with outpost.of("head:1", "10.0.0.9", "mark", str(tmp_path)):
            assert ended == []
    assert ended == [("mark", str(tmp_path))]


def test_what_keeps_it_out_is_told(monkeypatch, tmp_path, ended):
    monkeypatch.setattr(outpost, "is_here", lambda head: False)
    with ray_that(monkeypatch, "print('no route')"):  # noqa: SIM117
        with pytest.raises(UsageError, match=r"10\.0\.0\.9, cannot take part .*Ray said: no route"):
            with outpost.of("head:1", "10.0.0.9", "mark", str(tmp_path)):
                pass
    assert ended


@pytest.mark.parametrize(("there", "here"), [({"a", "b"}, True), ({"c"}, False), (set(), False)])
def test_a_node_of_the_cluster_may_be_here_already(monkeypatch, there, here):
    from ray._private import services

    monkeypatch.setattr(services, "find_node_ids", lambda: {"a"})
    monkeypatch.setattr(outpost, "alive", lambda head: there)
    assert outpost.is_here("head:1") is here
