import torch
from torch import nn

from tuner.vision.models.cnn import build


def test_build_width_sets_the_channels():
    net = build(in_channels=1, num_classes=10, width=5, norm="batch")
    convolutions = [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert convolutions == [5, 10, 20]
    assert net(torch.randn(3, 1, 8, 8)).shape == (3, 10)
