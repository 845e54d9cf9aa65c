"""What the driver sends to the workers."""

import os
import sys
from pathlib import Path

import pytest
from test_worker import context

from tuner.trial.context import INTERFACES, use_interface_of, with_trial_seed


def test_the_users_modules_and_files_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["a"])
    context(tmp_path, sys_path=("a", "b")).prepare_process()
    assert (sys.path, Path.cwd()) == (["a", "b"], tmp_path)
    context(tmp_path, directory=str(tmp_path / "not here")).prepare_process()
    assert Path.cwd() == tmp_path


def test_a_trials_own_seed_takes_the_place_of_the_experiments():
    values = {"seed": 1, "epochs": 3}
    assert with_trial_seed(values, 7) == {"seed": 7, "epochs": 3}
    assert with_trial_seed(values, None) == values
    assert with_trial_seed(values, 0)["seed"] == 0


@pytest.fixture
def no_interface(monkeypatch):
    for name in INTERFACES:
        monkeypatch.setenv(name, "x")  # so that it is restored
        monkeypatch.delenv(name)


def test_ranks_meet_by_the_interface_of_their_nodes_address(no_interface):
    use_interface_of("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    # Exactly this one: NCCL takes a bare name for the beginning of one
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=" + os.environ["GLOO_SOCKET_IFNAME"]


def test_an_interface_that_the_user_has_set_stays(no_interface, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    use_interface_of("127.0.0.1")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
