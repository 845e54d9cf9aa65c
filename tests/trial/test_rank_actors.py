"""Ranks as actors, without Ray; with it: tests/integration/test_several_workers.py."""

import os

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayActorError
from test_worker import context

from tuner import ray_compat
from tuner.trial.rank_actors import RankGroup, use_interface_of


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "x")  # so that it is restored
        monkeypatch.delenv(name)


def test_ranks_meet_by_the_interface_of_their_nodes_address():
    use_interface_of("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] == os.environ["NCCL_SOCKET_IFNAME"]
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    use_interface_of("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_an_address_of_no_interface_changes_nothing():
    use_interface_of("203.0.113.1")
    assert "GLOO_SOCKET_IFNAME" not in os.environ


@pytest.mark.parametrize(
    ("answer", "warned"), [(GetTimeoutError("still there"), True), (RayActorError(), False)]
)
def test_a_rank_that_does_not_end_is_told_of(monkeypatch, tmp_path, capsys, answer, warned):
    def fail(*arguments, timeout):
        raise answer

    group, killed = RankGroup(context(tmp_path, ranks=2)), []
    group._ranks = ["first", "second"]
    monkeypatch.setattr(ray, "kill", killed.append)
    monkeypatch.setattr(ray, "get", fail)
    monkeypatch.setattr(ray_compat, "when_ended", lambda rank: rank)
    group.close()
    assert killed == ["first", "second"]
    assert ("rank 1 has not ended" in capsys.readouterr().out) == warned
