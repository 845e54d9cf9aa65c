"""Processes of several searches that share GPUs; no card is needed to choose among them."""

import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from test_worker import context

from tuner.trial import gpus
from tuner.trial.context import Assignment
from tuner.trial.gpus import (
    CONTEXT_BYTES,
    VISIBLE,
    NoGpuError,
    build_sharing_variables,
    claim_gpu,
    compute_memory_share,
    measure_free_shares,
    take,
)
from tuner.trial.trial_process import TrialProcess
from tuner.trial.worker import Worker

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
        holders.append(Holder(build_sharing_variables(tmp_path / "new: one", ["2", "3"]), amount))
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


def test_take_puts_shares_on_one_gpu(hold):
    thirds = [hold(1 / 3).gpus for _ in range(3)]
    assert len(set(thirds)) == 1
    assert {thirds[0], hold(1).gpus} == {"2", "3"}


def test_room_returns_what_is_free_of_each_gpu(hold, tmp_path):
    folder = tmp_path / "new: one"
    assert measure_free_shares(folder, ["2", "3"]) == (1, 1)
    halves = [hold(0.5) for _ in range(3)]
    assert [half.gpus for half in halves] == ["2", "2", "3"]
    halves[0].kill()
    assert measure_free_shares(folder, ["2", "3"]) == (0.5, 0.5)


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


GIB = 1 << 30


@pytest.fixture
def hidden(monkeypatch):
    """A torch that is built for CUDA, and no GPU that it could see."""
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(is_available=lambda: False))
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def card(monkeypatch):
    """A GPU of 8 GiB; the shares of it that processes are limited to."""
    shares = []
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_device_properties=lambda device: SimpleNamespace(total_memory=8 * GIB),
        set_per_process_memory_fraction=lambda share, device: shares.append(share),
        memory_allocated=lambda: 0,
        empty_cache=lambda: None,
        _lazy_call=lambda work: work(),
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    return shares


def train(config):
    raise AssertionError("it trains")


def test_claim_without_visible_gpu_raises(snapshot, hidden, tmp_path):
    worker = Worker(context(tmp_path, gpus=0.25))
    with snapshot.raises(NoGpuError, varying={"torch [0-9][^ ]*": "torch VERSION"}):
        worker.begin(Assignment("00000", {}))
    with pytest.raises(NoGpuError, match="CUDA_VISIBLE_DEVICES is ''"):
        worker.join("127.0.0.1", 1)


@pytest.mark.parametrize("trainable", ["test_worker:Counter", "test_gpus:train"])
def test_claim_limits_memory_to_the_share(card, tmp_path, trainable):
    process = TrialProcess(context(tmp_path, trainable=trainable, gpus=0.25))
    process.begin(Assignment("00000", {}))
    process.end()
    assert card == [compute_memory_share(0.25, 8 * GIB)]


@pytest.mark.parametrize(("processes", "total"), [(8, 8 * GIB), (4, 16 * GIB), (10, 80 * GIB)])
def test_memory_shares_and_contexts_fit_the_gpu(processes, total):
    each = compute_memory_share(1 / processes, total) * total + CONTEXT_BYTES
    assert each * processes == pytest.approx(total)


def test_claim_of_too_small_share_raises(snapshot, card):
    with snapshot.raises(NoGpuError):
        claim_gpu(0.05, through_torch=True)
    assert gpus.CONTEXT_BYTES == 512 << 20
