"""A driver's own node, with Ray played; a real one takes part in integration/."""

import os
import sys

import pytest

from tuner.cluster import access, guard
from tuner.cluster.joined.driver_node import driver_node
from tuner.errors import UsageError


def node(code, *polls):
    """A node for a driver, with a process of this Python code in place of `ray start`."""
    polls = iter(polls)
    command = (sys.executable, "-c", code)
    is_up = lambda head, limit_s: next(polls)  # noqa: E731
    return driver_node("head:1", "10.0.0.9", is_up=is_up, ray=command, poll_s=0)


def test_it_lasts_as_long_as_its_context(monkeypatch, tmp_path):
    monkeypatch.setattr(access, "TEMPORARY", str(tmp_path))
    monkeypatch.delenv(guard.MARK, raising=False)
    with node("import time; time.sleep(600)", False, False, True):
        mark = os.environ[guard.MARK]
        [folder] = tmp_path.iterdir()
        assert len(guard.marked(mark, str(folder))) == 1
    assert guard.marked(mark, str(folder)) == []
    assert list(tmp_path.iterdir()) == []
    assert guard.MARK not in os.environ


def test_a_node_of_the_cluster_that_is_here_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(access, "TEMPORARY", str(tmp_path))
    with node("", True):
        assert list(tmp_path.iterdir()) == []


def test_what_keeps_it_out_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(access, "TEMPORARY", str(tmp_path))
    with pytest.raises(UsageError, match=r"10\.0\.0\.9, cannot take part .*Ray said: no route"):  # noqa: SIM117
        with node("print('no route')", *[False] * 100_000):
            pass
    assert list(tmp_path.iterdir()) == []
