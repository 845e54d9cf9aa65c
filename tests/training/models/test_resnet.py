import pytest
import torch
from torch import nn

from tuner.training.models.norm import norm_layer
from tuner.training.models.resnet import ResNet
from tuner.training.models.resnet18 import ResNet18
from tuner.training.models.resnet20 import ResNet20


@pytest.mark.parametrize("model", [ResNet18, ResNet20])
def test_it_is_the_composition_of_its_layers(model):
    net = model(in_channels=3, num_classes=10, norm="batch").eval()
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(nn.Sequential(*net.layers())(x), net(x))


def test_the_stem_draws_its_weights_before_the_blocks_and_they_before_the_head():
    made = []

    def blocks():
        made.append(torch.get_rng_state())
        yield norm_layer("group", 4)

    torch.manual_seed(0)
    ResNet(blocks(), in_channels=3, width=4, features=4, num_classes=2, norm="group")
    torch.manual_seed(0)
    nn.Conv2d(3, 4, 3, bias=False)
    assert torch.equal(made[0], torch.get_rng_state())
