"""The contract of networks for the classifier: a test inherits it and names its network.

class TestMyNet(ModelContract):
    network = MyNet
    model_args = {"width": 8}
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getattr_static
from io import BytesIO
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import seeded
from tuner.vision.models._foreign import argument_faults
from tuner.vision.new_model import fault_of_logits


class ModelContract:
    """Inherit, set `network`, and every test below runs on it, for images of this shape."""

    network: Callable[..., Any]
    model_args: ClassVar[Mapping[str, Any]] = {}
    in_channels = 3
    image_size = 32
    num_classes = 10

    def make(self, *, seed: int = 0) -> nn.Module:
        """The network as a trial builds it."""
        network = getattr_static(self, "network")
        path = f"{network.__module__}:{network.__qualname__}"
        plan = Blueprint(
            name=path,
            settings={"model_args": dict(self.model_args)},
            in_channels=self.in_channels,
            image_size=self.image_size,
            num_classes=self.num_classes,
        )
        with seeded(seed):
            return plan.initial()

    def images(self, count: int) -> Tensor:
        """x_NCHW, the same each time."""
        generator = torch.Generator().manual_seed(0)
        shape = (count, self.in_channels, self.image_size, self.image_size)
        return torch.randn(shape, generator=generator)

    def test_it_takes_its_arguments(self) -> None:
        network = getattr_static(self, "network")
        assert [str(fault) for fault in argument_faults(network, self.model_args)] == []

    def test_it_returns_logits(self) -> None:
        model = self.make()
        for training in (True, False):
            logits_NK = model.train(training)(self.images(3))
            assert fault_of_logits(logits_NK, 3, self.num_classes) is None

    def test_a_seed_repeats_its_weights(self) -> None:
        first, again = (self.make().state_dict() for _ in range(2))
        assert all(torch.equal(value, again[name]) for name, value in first.items())

    def test_its_weights_train(self) -> None:
        model = self.make().train()
        logits_NK = model(self.images(3))
        nn.functional.cross_entropy(logits_NK, torch.zeros(3, dtype=torch.int64)).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert gradients
        assert all(gradient.isfinite().all() for gradient in gradients)

    @torch.no_grad()
    def test_images_do_not_affect_each_other_in_an_evaluation(self) -> None:
        model = self.make().eval()
        x_NCHW = self.images(3)
        with seeded(0):
            together_NK = model(x_NCHW)
        for number, x_CHW in enumerate(x_NCHW):
            with seeded(0):
                alone_NK = model(x_CHW[None])
            assert torch.allclose(alone_NK[0], together_NK[number], rtol=1e-3, atol=1e-4)

    @torch.no_grad()
    def test_a_saved_state_goes_on(self) -> None:
        """In a network of another seed, from a file that holds only tensors and plain values."""
        model, other = self.make(), self.make(seed=1)
        model.train()(self.images(3))  # what it keeps, such as BatchNorm's statistics, is saved too
        file = BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        x_NCHW = self.images(3)
        with seeded(0):
            expected_NK = model.eval()(x_NCHW)
        with seeded(0):
            assert torch.equal(other.eval()(x_NCHW), expected_NK)
