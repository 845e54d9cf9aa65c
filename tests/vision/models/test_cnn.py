import pytest
import torch
from torch import nn

from tuner.vision.models.cnn import build


@pytest.mark.parametrize("width", [1, 8, 16])
def test_build_width_sets_the_channels(width):
    net = build(in_channels=1, num_classes=10, width=width, norm="batch")
    convolutions = [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert convolutions == [width, 2 * width, 4 * width]
    assert net(torch.randn(3, 1, 8, 8)).shape == (3, 10)
