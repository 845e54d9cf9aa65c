"""The contract of networks holds for one that works, and each of its tests can fail."""

import pytest
import torch
from torch import nn

from tuner.testing import ModelContract


class Net(nn.Module):
    def __init__(self, in_channels, num_classes, width=4, dropout=0.5):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(dropout)
        self.head = nn.LazyLinear(num_classes)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x)).relu().mean((2, 3))))


class TestNet(ModelContract):
    network = Net
    model_args = {"width": 6}  # noqa: RUF012 - as users write it


def a_function(num_classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))


class TestNarrowNet(TestNet):
    model_args = {"width": 2}  # noqa: RUF012


class TestAFunction(ModelContract):
    network = a_function
    in_channels, image_size, num_classes = 1, 8, 3


class Mixing(Net):
    """Normalises over the batch in an evaluation, too."""

    def forward(self, x):
        return super().forward(x - x.mean(0)) * 3


class Forgetting(Net):
    """Keeps what it learns outside of its state."""

    seen = 0.0

    def forward(self, x):
        self.seen += float(self.training)
        return super().forward(x) + self.seen


class Fixed(Net):
    def forward(self, x):
        return super().forward(x).detach()


class Single(Net):
    def forward(self, x):
        return super().forward(x)[:, :1]


class Unseeded(Net):
    def __init__(self, in_channels, num_classes):
        super().__init__(in_channels, num_classes)
        generator = torch.Generator()
        generator.seed()
        self.conv.weight.data.normal_(generator=generator)


@pytest.mark.parametrize(
    ("network", "model_args", "test"),
    [
        (Mixing, {}, "test_images_do_not_affect_each_other_in_an_evaluation"),
        (Forgetting, {}, "test_a_saved_state_goes_on"),
        (Fixed, {}, "test_its_weights_train"),
        (Single, {}, "test_it_returns_logits"),
        (Unseeded, {}, "test_a_seed_repeats_its_weights"),
        (Net, {"depth": 3}, "test_it_takes_its_arguments"),
    ],
)
def test_every_test_of_the_contract_can_fail(network, model_args, test):
    contract = type("Faulty", (ModelContract,), {"network": network, "model_args": model_args})
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(contract(), test)()
