"""Processes of several searches that share GPUs; no card is needed to choose among them."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from test_worker import context

from tuner.trial import gpus
from tuner.trial.gpus import VISIBLE, build_sharing_variables, measure_free_shares, take
from tuner.trial.trial_process import TrialProcess

WAITING = "waiting for a GPU that another search still uses"
HOLDER = f"""
import os, sys
from tuner.trial.gpus import take
print("begun", flush=True)
take(float(sys.argv[1]))
print(os.environ["{VISIBLE}"], flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that keeps what it has taken until it is killed."""

    def __init__(self, environment: dict[str, str], amount: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(amount)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "begun"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    @property
    def gpus(self) -> str:
        """Those that it has, or WAITING, once it says so."""
        return self._line()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


Hold = Callable[[float], Holder]


@pytest.fixture
def hold(tmp_path):
    """Starts processes that share the GPUs 2 and 3, as a machine may show these alone."""
    holders = []

    def start(amount: float) -> Holder:
        holders.append(
            Holder(build_sharing_variables(tmp_path / "new: one", ["2", "3"]), amount)
        )
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()


def test_take_waits_for_a_gpu_that_is_in_use(hold):
    first = hold(1)
    second = hold(1)
    had = first.gpus
    assert {had, second.gpus} == {"2", "3"}
    third = hold(1)
    assert third.gpus == WAITING
    first.kill()
    assert third.gpus == had


def test_shares_are_on_as_few_gpus_as_they_fit(hold, tmp_path):
    folder = tmp_path / "new: one"
    assert measure_free_shares(folder, ["2", "3"]) == (1, 1)
    thirds = [hold(1 / 3) for _ in range(4)]
    assert [third.gpus for third in thirds] == ["2", "2", "2", "3"]
    thirds[0].kill()
    assert measure_free_shares(folder, ["2", "3"]) == pytest.approx((1 / 3, 2 / 3))


def test_take_without_sharing_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "7")
    take(1)
    for name, value in build_sharing_variables(tmp_path, ["0"]).items():
        monkeypatch.setenv(name, value)
    take(0)
    assert os.environ[VISIBLE] == "7"


def test_trial_process_takes_its_gpu_once(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "_held", {})
    monkeypatch.setenv(VISIBLE, "0")
    for name, value in build_sharing_variables(tmp_path / "gpus", ["GPU-5"]).items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        TrialProcess(context(tmp_path, trainable="no_such_module:train", gpus=1))
    assert os.environ[VISIBLE] == "GPU-5"
    [file] = gpus._held.values()
    file.close()


def train(config):
    raise AssertionError("it trains")
