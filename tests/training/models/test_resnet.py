import torch
from torch import nn

from tuner.training.models.norm import norm_layer
from tuner.training.models.resnet import ResNet


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
