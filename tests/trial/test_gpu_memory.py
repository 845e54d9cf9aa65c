from types import SimpleNamespace

import pytest
import torch
from test_worker import context

from tuner.trial.context import Assignment
from tuner.trial.gpu_memory import (
    CONTEXT_BYTES,
    NoGpuError,
    claim_gpu,
    compute_memory_share,
)
from tuner.trial.trial_process import TrialProcess
from tuner.trial.worker import Worker

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


@pytest.mark.parametrize(
    ("processes", "total"), [(8, 8 * GIB), (4, 16 * GIB), (10, 80 * GIB)]
)
def test_memory_shares_and_contexts_fit_the_gpu(processes, total):
    each = compute_memory_share(1 / processes, total) * total + CONTEXT_BYTES
    assert each * processes == pytest.approx(total)


def test_claim_of_too_small_share_raises(snapshot, card):
    with snapshot.raises(NoGpuError):
        claim_gpu(0.05, through_torch=True)
    assert CONTEXT_BYTES == 512 << 20
