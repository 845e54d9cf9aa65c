"""Which network interface ranks meet over."""

import os

import pytest

from tuner.trial.interfaces import VARIABLES, use_interface_of


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, "x")  # so that it is restored
        monkeypatch.delenv(name)


def test_ranks_meet_by_the_interface_of_their_nodes_address():
    use_interface_of("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    # Exactly this one: NCCL takes a bare name for the beginning of one
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=" + os.environ["GLOO_SOCKET_IFNAME"]


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    use_interface_of("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_an_address_of_no_interface_changes_nothing():
    use_interface_of("203.0.113.1")
    assert "GLOO_SOCKET_IFNAME" not in os.environ
