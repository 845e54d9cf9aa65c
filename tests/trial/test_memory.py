import gc
import subprocess
import sys

import pytest
import torch
from live_bytes import LiveBytes

from tuner.classifier.image_classifier import ImageClassifier
from tuner.trial import memory, process_memory
from tuner.trial.memory import MemoryWatch

TINY = {"dataset": "tiny", "model": "resnet20", "batch_size": 16, "epochs": 1}
MIB = 1 << 20


def watched(watch, work):
    watch.begin()
    kept = work()
    return watch.end(), kept


def test_the_peak_is_the_epochs_own():
    watch = MemoryWatch("cpu")
    small, _ = watched(watch, lambda: None)
    large, _ = watched(watch, lambda: torch.ones(64 * MIB, dtype=torch.uint8).sum())
    again, _ = watched(watch, lambda: None)
    assert large["peak_memory_mib"] >= small["memory_mib"] + 60
    assert again["peak_memory_mib"] <= large["peak_memory_mib"] - 60
    assert large["memory_mib"] < small["memory_mib"] + 30
    assert set(large) == {"memory_mib", "peak_memory_mib"}


def test_memory_that_is_kept_shows():
    watch = MemoryWatch("cpu")
    before, _ = watched(watch, lambda: None)
    after, kept = watched(watch, lambda: torch.ones(64 * MIB, dtype=torch.uint8))
    assert after["memory_mib"] >= before["memory_mib"] + 60
    del kept


def test_where_linux_has_no_answer_the_peak_of_the_process_stands_in(monkeypatch, tmp_path):
    monkeypatch.setattr(process_memory, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "none" / "none")
    measured, _ = watched(MemoryWatch("cpu"), lambda: None)
    assert measured["memory_mib"] == measured["peak_memory_mib"] > 10


LEAKY = """
import sys
import torch
from tuner.trial.memory import EPOCHS, MemoryWatch

watch, model, running_loss = MemoryWatch("cpu"), torch.nn.Linear(1000, 1000), 0.0
for _ in range(EPOCHS + 6):
    watch.begin()
    for _ in range(10):
        loss = model(torch.ones(100, 1000)).exp().sum()
        running_loss = running_loss + (loss if sys.argv[1] == "keep" else loss.detach())
    watch.end()
print("warned" if watch.warned else "quiet")
"""


def output_of(what):
    """What a process of its own says: in this one, earlier tests have left memory to fill first."""
    command = [sys.executable, "-c", LEAKY, what]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_running_loss_that_keeps_its_graph_is_warned_of_once():
    out = output_of("keep")
    assert out.endswith("warned\n")
    assert out.count("warning") == 1
    assert "running loss" in out


def test_one_that_does_not_is_not_warned_of():
    assert output_of("detach") == "quiet\n"


def test_the_image_classifier_does_not_grow():
    learner = ImageClassifier({}, {**TINY, "epochs": 12})
    watch = MemoryWatch("cpu")
    for _ in range(12):
        watched(watch, learner.step)
    assert not watch.warned


def build_step_drop():
    ImageClassifier({"lr": 0.1}, TINY).step()


def test_thirty_trials_in_one_process_leave_nothing():
    for _ in range(5):  # what is made once, and the allocator's own ups and downs
        build_step_drop()
    with LiveBytes() as tensors:  # before the measure: torch imports 70 MiB for its first mode
        build_step_drop()
        gc.collect()
        assert tensors.live == 0
    before, _ = watched(MemoryWatch("cpu"), lambda: None)
    for _ in range(29):
        build_step_drop()
    gc.collect()
    after, _ = watched(MemoryWatch("cpu"), lambda: None)
    # One trial's weights, gradients and momentum are 3 MiB, its activations 15.
    assert after["memory_mib"] - before["memory_mib"] < 20


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: none here")
def test_thirty_trials_on_a_gpu_leave_nothing():
    device = torch.device("cuda")

    def run():
        ImageClassifier({"lr": 0.1}, TINY, device=device).step()
        gc.collect()
        return torch.cuda.memory_allocated(device)

    before = run()
    assert [run() for _ in range(29)] == [before] * 29
