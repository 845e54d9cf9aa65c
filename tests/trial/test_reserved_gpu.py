"""The GPU that a process has reserved; no card is needed to tell that there is none."""

from types import SimpleNamespace

import pytest
import torch
from test_worker import context

from tuner.trial import reserved_gpu
from tuner.trial.context import Assignment
from tuner.trial.reserved_gpu import CONTEXT_BYTES, NoGpuError, claim, memory_share
from tuner.trial.trial_process import TrialProcess
from tuner.trial.worker import Worker

GIB = 1 << 30


@pytest.fixture
def hidden(monkeypatch):
    """A torch that is built for CUDA, and no GPU that it could see."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def card(monkeypatch):
    """A GPU of 8 GiB; the shares of it that processes are limited to."""
    shares = []
    cuda = torch.cuda
    total = SimpleNamespace(total_memory=8 * GIB)
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(cuda, "get_device_properties", lambda device: total)
    monkeypatch.setattr(cuda, "set_per_process_memory_fraction", lambda s, device: shares.append(s))
    return shares


def train(config):
    raise AssertionError("it trains")


def test_a_trial_that_finds_no_gpu_does_not_train_on_the_cpu(hidden, tmp_path):
    worker = Worker(context(tmp_path, gpus=0.25))
    told = r"reserved a GPU \(resources.gpus: 0.25\), but its process finds none: .* built for 12.8"
    with pytest.raises(NoGpuError, match=told):
        worker.begin(Assignment("00000", {}))
    with pytest.raises(NoGpuError, match="CUDA_VISIBLE_DEVICES is ''"):
        worker.join("127.0.0.1", 1)


def test_nor_does_a_plain_function(hidden, tmp_path):
    process = TrialProcess(context(tmp_path, trainable="test_reserved_gpu:train", gpus=1))
    with pytest.raises(NoGpuError, match="reserved a GPU"):
        process.begin(Assignment("00000", {}))


def test_a_torch_for_cpus_says_nothing_about_what_another_library_finds(hidden, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    claim(1, through_torch=False)
    with pytest.raises(NoGpuError, match="is built for CPUs"):
        claim(1, through_torch=True)


@pytest.mark.parametrize("trainable", ["test_worker:Counter", "test_reserved_gpu:train"])
def test_whoever_shares_a_gpu_is_limited_to_its_share(card, tmp_path, trainable):
    process = TrialProcess(context(tmp_path, trainable=trainable, gpus=0.25))
    process.begin(Assignment("00000", {}))
    process._directory.leave()
    assert card == [memory_share(0.25, 8 * GIB)]


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_whole_gpus_have_no_limit(card, gpus):
    claim(gpus, through_torch=True)
    assert card == []


@pytest.mark.parametrize(("processes", "total"), [(8, 8 * GIB), (4, 16 * GIB), (10, 80 * GIB)])
def test_all_shares_and_what_cuda_takes_fit_a_card(processes, total):
    each = memory_share(1 / processes, total) * total + CONTEXT_BYTES
    assert each * processes == pytest.approx(total)


def test_a_share_that_cuda_takes_by_itself_is_refused(card):
    with pytest.raises(NoGpuError, match=r"resources.gpus: 0.05 of this GPU is 410 MiB, and CUDA"):
        claim(0.05, through_torch=True)
    assert reserved_gpu.CONTEXT_BYTES == 512 << 20


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: none here")
def test_what_cuda_takes_of_a_card_is_known():
    """With other processes on the card this says nothing."""
    torch.ones(1, device="cuda") @ torch.ones(1, 1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    assert total - free - torch.cuda.memory_reserved() < 1.5 * CONTEXT_BYTES
