import pytest
import torch
from tiny_images import TINY
from torch import nn

from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.precision import Hardware, cast_weights, resolve_precision

ALL = Hardware("cpu", bf16=True, fp16=True)
NONE = Hardware("cpu", bf16=False, fp16=False)
A100 = Hardware("cuda", bf16=True, fp16=True)
V100 = Hardware("cuda", bf16=False, fp16=True)
P100 = Hardware("cuda", bf16=False, fp16=False)
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def test_precision_follows_from_setting_and_hardware(snapshot):
    for setting in ("auto", "float32", "tf32", "bf16", "fp16"):
        for has in (A100, V100, P100, ALL, NONE):
            chosen = resolve_precision(setting, has)
            snapshot(
                f"{setting} on {has}: {chosen.name}, {chosen}, scaled: {chosen.scaled}"
            )


def flags():
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("settings", "dtype", "tf32"),
    [
        ({"precision": "tf32"}, torch.float32, True),
        ({"dtype": "float64"}, torch.float64, False),
    ],
)
def test_step_trains_and_evaluates_with_its_tf32(settings, dtype, tf32, runs_on):
    runs_on(A100)
    before = flags()
    learner = ImageClassifier(settings, TINY)
    seen = []
    learner.model.register_forward_hook(
        lambda module, inputs, out: seen.append((module.training, out.dtype, *flags()))
    )
    learner.step()
    assert set(seen) == {(training, dtype, tf32, tf32) for training in (True, False)}
    assert flags() == before


@pytest.mark.parametrize("setting", ["bf16", "fp16"])
def test_step_in_half_precision_learns(setting, runs_on):
    runs_on(ALL)
    learner = ImageClassifier({"precision": setting}, TINY)
    plain = ImageClassifier({}, TINY)
    computed = set()
    learner.model.head.register_forward_hook(lambda m, i, out: computed.add(out.dtype))
    losses = [learner.step()["train_loss"] for _ in range(2)]
    expected = [plain.step()["train_loss"] for _ in range(2)]
    assert computed == {HALF[setting]}
    assert all(p.dtype == torch.float32 for p in learner.model.parameters())
    assert losses == pytest.approx(expected, rel=0.02)
    assert losses[0] != expected[0]


def test_cast_weights_keeps_imaginary_parts():
    weights = {"spectrum": torch.tensor([1 + 2j]), "gain": torch.ones(1)}
    model = nn.ParameterDict(weights)
    cast_weights(model, torch.float64)
    assert model["spectrum"].tolist() == [1 + 2j]
    assert model["spectrum"].dtype == torch.complex128
    assert model["gain"].dtype == torch.float64


def test_gradients_in_half_precision_are_unscaled_and_clipped(runs_on):
    runs_on(ALL)
    learner = ImageClassifier({"precision": "fp16", "clip_grad_norm": 0.05}, TINY)
    learner.step()
    gradients = [p.grad.flatten() for p in learner.model.parameters()]
    assert torch.cat(gradients).norm().item() == pytest.approx(0.05, rel=0.01)


def test_overflowing_gradients_skip_the_step(runs_on):
    runs_on(ALL)
    learner = ImageClassifier({"precision": "fp16"}, TINY)
    state = learner.state_dict()
    learner.load_state_dict({**state, "scaler": {**state["scaler"], "scale": 2.0**40}})
    before = [p.detach().clone() for p in learner.model.parameters()]
    learner.step()
    assert learner.state_dict()["scaler"]["scale"] < 2.0**40
    assert all(map(torch.equal, before, learner.model.parameters()))


def record_dtypes(learner):
    computed = set()
    hook = learner.model.head.register_forward_hook(
        lambda m, i, out: computed.add(out.dtype)
    )
    learner.test()
    hook.remove()
    return computed


def test_test_of_a_state_uses_the_precision_of_its_training(runs_on):
    """As where a search trained on CPUs, and its best trial is evaluated on a GPU."""
    runs_on(ALL)
    plain, half = (ImageClassifier({"precision": p}, TINY) for p in ("float32", "bf16"))
    plain_state = plain.state_dict()
    half_state = half.state_dict()
    half.load_state_dict(plain_state)
    assert record_dtypes(half) == {torch.float32}
    plain.load_state_dict(half_state)
    assert record_dtypes(plain) == {torch.bfloat16}
    assert plain.state_dict()["precision"] == "bf16"
    plain.step()
    assert record_dtypes(plain) == {torch.float32}
    runs_on(NONE)
    plain.load_state_dict(half_state)
    assert record_dtypes(plain) == {torch.float32}
