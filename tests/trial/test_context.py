"""What the driver sends to the workers."""

import os
import sys
from pathlib import Path

import pytest
from test_worker import context

from tuner.trial.context import INTERFACES, set_network_interface


def test_prepare_process_sets_path_and_directory(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["a"])
    context(tmp_path, sys_path=("a", "b")).prepare_process()
    assert (sys.path, Path.cwd()) == (["a", "b"], tmp_path)
    context(tmp_path, directory=str(tmp_path / "not here")).prepare_process()
    assert Path.cwd() == tmp_path


@pytest.fixture
def no_interface(monkeypatch):
    for name in INTERFACES:
        monkeypatch.setenv(name, "x")  # so that it is restored
        monkeypatch.delenv(name)


def test_use_interface_of_sets_gloo_and_nccl(no_interface):
    set_network_interface("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    # Exactly this one: NCCL takes a bare name for the beginning of one
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=" + os.environ["GLOO_SOCKET_IFNAME"]


def test_use_interface_of_keeps_user_setting(no_interface, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    set_network_interface("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
