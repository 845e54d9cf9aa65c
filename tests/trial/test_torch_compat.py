"""What touches torch itself leaves it as it was."""

import io

import pytest
import torch
from fresh import ran
from torch.optim import SGD, AdamW, Optimizer

from tuner.trial.torch_compat import (
    build_eager_class,
    bypass_compiler,
    remember_numerics,
    save,
    set_numerics,
)


def list_attributes():
    """Whatever is attached to the methods of optimizers, and to the functions they wrap."""
    attributes = {}
    for kind in (Optimizer, SGD, AdamW):
        for name, method in vars(kind).items():
            plain = getattr(method, "__wrapped__", None)
            attached = dict(getattr(plain, "__dict__", {}))
            attributes[kind.__name__, name] = (method, plain, attached)
    return attributes


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_without_compiler_restores_optimizers(kind):
    SGD([torch.nn.Parameter(torch.ones(1))])  # torch itself wraps `step` at the first
    AdamW([torch.nn.Parameter(torch.ones(1))])
    before = list_attributes()
    weight = torch.nn.Parameter(torch.ones(2))

    def train():
        with bypass_compiler():
            optimizer = build_eager_class(kind)([weight], lr=0.1)
            weight.grad = torch.ones(2)
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
            raise KeyError("a trial that fails")

    with pytest.raises(KeyError, match="a trial that fails"):
        train()
    assert weight.detach().max() < 1
    assert list_attributes() == before


def test_trial_imports_neither_the_compiler_nor_ray():
    code = """
from tuner.vision.image_classifier import ImageClassifier
from tuner.trial.trial_process import Leftovers
leftovers = Leftovers()
leftovers.begin()
constants = {"model": "cnn", "dataset": "digits", "width": 2, "epochs": 1}
ImageClassifier({}, constants).step()
assert leftovers.clear() is None
"""
    modules = ran(code).modules
    assert "torch" in modules
    assert not modules & {"torch._dynamo", "ray"}


def test_remember_numerics_restores_both_names():
    matmul = torch.backends.cuda.matmul
    cudnn = torch.backends.cudnn

    def present():
        newer = [
            getattr(part, "fp32_precision", None)
            for part in (matmul, cudnn.conv, cudnn.rnn)
        ]
        return (
            torch.get_float32_matmul_precision(),
            matmul.allow_tf32,
            cudnn.allow_tf32,
            *newer,
        )

    before = present()
    put_back = remember_numerics()
    torch.set_float32_matmul_precision("medium")
    put_back()
    assert present() == before
    if hasattr(matmul, "fp32_precision"):
        matmul.fp32_precision = "tf32"
        cudnn.conv.fp32_precision = "ieee"
        again = remember_numerics()  # the older names cannot be read now
        again()
        put_back()
        assert present() == before


@pytest.mark.skipif(
    not hasattr(torch.backends, "fp32_precision"), reason="torch before 2.9"
)
@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_after_use_of_newer_name(allowed):
    matmul = torch.backends.cuda.matmul
    conv = torch.backends.cudnn.conv
    put_back = remember_numerics()
    matmul.fp32_precision = "tf32"
    conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError):
        _ = matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with set_numerics(tf32=allowed, tries_convolutions=False):
        precision = "tf32" if allowed else "ieee"
        assert (matmul.fp32_precision, conv.fp32_precision) == (precision, precision)
    assert (matmul.fp32_precision, conv.fp32_precision) == ("tf32", "ieee")
    put_back()


@pytest.mark.parametrize("deterministic", [True, False])
def test_computing_tries_convolutions_unless_deterministic(deterministic):
    put_back = remember_numerics()
    torch.use_deterministic_algorithms(deterministic)
    with set_numerics(tf32=False, tries_convolutions=True):
        assert torch.backends.cudnn.benchmark is not deterministic
    assert torch.backends.cudnn.benchmark is False
    put_back()


def test_save_on_full_disk_raises_os_error():
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "wb") as file:
        save({"w": torch.ones(100_000)}, file)
    with pytest.raises(RuntimeError):
        save({"w": torch.ones(10).as_subclass(Broken)}, io.BytesIO())


class Broken(torch.Tensor):
    def __reduce_ex__(self, protocol):
        raise RuntimeError("not to be saved")
