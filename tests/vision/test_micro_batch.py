import gc
from functools import cache

import pytest
import tiny_images
import torch
from live_bytes import LiveBytes
from tiny_images import INFO

from tuner.vision import replica
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.micro_batch import MicroBatch

# The last batch has 9
EXACT = {**tiny_images.EXACT, "width": 8, "batch_size": 20, "epochs": 3}


def fits(limit, error=None):
    tried = []

    def attempt(size):
        tried.append(size)
        if size > limit:
            raise error or torch.OutOfMemoryError("CUDA out of memory.")
        return -size

    return attempt, tried


def micro_batch(size=100, **more):
    return MicroBatch(size, device=torch.device("cpu"), purpose="training", **more)


def test_failed_attempt_restores_filled_and_replaced_buffers():
    model = torch.nn.Module()
    model.register_buffer("filled", torch.tensor([1]).expand(3))
    model.register_buffer("replaced", torch.zeros(1))

    def attempt(size):
        if size == 2:
            model.filled[0] = 9
            model.replaced = model.replaced + 1
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return [*model.filled.tolist(), *model.replaced.tolist()]

    micro = micro_batch(2, buffers=lambda: dict(model.named_buffers()))
    assert micro.run(attempt) == [1, 1, 1, 0.0]


def test_run_halves_until_it_fits_and_keeps_the_size(capsys):
    micro = micro_batch()
    attempt, tried = fits(30)
    assert micro.run(attempt) == -25
    assert micro.run(attempt) == -25
    assert tried == [100, 50, 25, 25]
    assert (
        "in training at a micro-batch of 100: going on with 50"
        in capsys.readouterr().out
    )


def test_run_at_one_image_raises_the_error_itself():
    error = torch.OutOfMemoryError("not even one")
    micro = micro_batch(4)
    attempt, tried = fits(0, error)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        micro.run(attempt)
    assert caught.value is error
    assert caught.traceback[-1].name == "attempt"
    assert tried == [4, 2, 1]


@pytest.mark.parametrize(
    "error",
    [ValueError("out of memory"), RuntimeError("CUDA error: device-side assert")],
)
def test_run_propagates_other_errors_at_once(error):
    attempt, tried = fits(0, error)
    with pytest.raises(type(error)) as caught:
        micro_batch().run(attempt)
    assert caught.value is error
    assert tried == [100]


def test_run_frees_a_failed_attempt_before_the_next():
    with LiveBytes(budget=1 << 20) as memory:
        alive = []

        def attempt(size):
            alive.append(memory.live)
            kept = [torch.zeros(1 << 17, dtype=torch.uint8) for _ in range(size)]
            return len(kept)

        assert micro_batch(32).run(attempt) == 8
    assert alive == [0, 0, 0]


@pytest.mark.parametrize("rehearses", [False, True])
def test_failed_attempts_and_rehearsals_restore_buffers_and_random_state(rehearses):
    norm = torch.nn.BatchNorm1d(2)
    drawn = []

    def attempt(size):
        drawn.append(torch.rand(1).item())
        norm(torch.full((size, 2), 3.0))
        if size > 2:
            raise torch.OutOfMemoryError
        return size

    before = torch.get_rng_state()
    micro = micro_batch(8, buffers=lambda: dict(norm.named_buffers()))
    micro.rehearse(attempt, agree=int) if rehearses else micro.run(attempt)
    assert (micro.size, drawn) == (2, [drawn[0]] * 3)
    assert norm.num_batches_tracked == (0 if rehearses else 1)
    assert norm.running_mean.tolist() == pytest.approx([0 if rehearses else 0.3] * 2)
    assert torch.equal(torch.get_rng_state(), before) == rehearses


def learner(**settings):
    return ImageClassifier(settings, EXACT)


def results(report):
    return [report[name] for name in ("train_loss", "val_loss", "val_accuracy", "lr")]


RECIPE = {"crop_padding": 4, "flip": True, "label_smoothing": 0.1}


@cache
def train_in_whole_batches():
    """The reports of two steps, and the weights after them."""
    made = learner(**RECIPE)
    return [made.step() for _ in range(2)], made.state_dict()["model"]


def compare_with_whole_batches(made, reports):
    expected_reports, weights = train_in_whole_batches()
    for got, expected in zip(reports, expected_reports, strict=True):
        assert results(got) == pytest.approx(results(expected), rel=1e-11)
    for key, value in weights.items():
        assert (made.state_dict()["model"][key] - value).abs().max() <= 1e-12, key


def test_step_short_of_memory_equals_the_complete_step():
    with LiveBytes() as whole:
        learner(**RECIPE).step()
    tight = learner(**RECIPE)
    with LiveBytes(int(0.35 * whole.peak)) as memory:
        report = tight.step()
    assert memory.refused
    assert report["micro_batch_size"] < 20
    compare_with_whole_batches(tight, [report, tight.step()])


@pytest.mark.parametrize("size", [1, 7])
def test_step_in_micro_batches_of_any_size_equals_the_complete_step(size):
    made = learner(**RECIPE)
    made.load_state_dict({**made.state_dict(), "micro_batch_size": size})
    compare_with_whole_batches(made, [made.step(), made.step()])
    assert made.state_dict()["micro_batch_size"] == size


def test_step_on_a_gpu_after_loading_tries_the_whole_batch_again(monkeypatch):
    monkeypatch.setattr(replica, "FOUND_ANEW", ("cpu",))
    small = {**learner().state_dict(), "micro_batch_size": 3}
    restored = learner()
    restored.load_state_dict(small)
    assert restored.step()["micro_batch_size"] == 20


def test_evaluation_short_of_memory_continues_in_parts(monkeypatch, capsys):
    monkeypatch.setattr("tuner.vision.replica.EVALUATION_BATCH", INFO.test)
    expected = learner().test()
    with LiveBytes() as memory:
        learner().test()
    tight = learner()
    for refused in (True, False):  # the second time it knows the size
        with LiveBytes(budget=memory.peak // 2) as tight_memory:
            assert tight.test() == pytest.approx(expected, rel=1e-12)
        assert bool(tight_memory.refused) == refused
        message = f"out of memory in evaluation at a micro-batch of {INFO.test}"
        assert (message in capsys.readouterr().out) == refused
    assert tight.state_dict()["micro_batch_size"] == 20  # training's


@pytest.mark.gpu
def test_step_recovers_from_a_real_cuda_out_of_memory():
    """The limit is on what is reserved: segments that torch keeps, and cuBLAS' workspace."""
    device = torch.device("cuda")
    large = {**EXACT, "width": 64, "batch_size": 49}
    ImageClassifier({}, large, device=device).step()  # what is made once and kept
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    ImageClassifier({}, large, device=device).step()
    needed = torch.cuda.max_memory_reserved() - before
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(device).total_memory
    limit = torch.cuda.memory_reserved() + needed // 2
    torch.cuda.set_per_process_memory_fraction(limit / total)
    try:
        report = ImageClassifier({}, large, device=device).step()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert report["micro_batch_size"] < 49
