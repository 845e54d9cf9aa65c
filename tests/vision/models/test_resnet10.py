import pytest
import torch

from tuner.vision.models.resnet10 import build


@pytest.mark.parametrize(("width", "parameters"), [(16, 309_000), (32, 1_228_000)])
def test_build_width_sets_the_size(width, parameters):
    net = build(in_channels=3, num_classes=10, width=width, norm="batch")
    assert sum(p.numel() for p in net.parameters()) == pytest.approx(parameters, rel=0.01)
    assert net.head.in_features == 8 * width


def test_stem_and_each_later_stage_halve_the_image():
    net = build(in_channels=1, num_classes=4, width=4, norm="group")
    x = torch.randn(2, 1, 64, 64)
    assert net.stem(x).shape == (2, 4, 32, 32)
    assert net.blocks(net.stem(x)).shape == (2, 32, 4, 4)
    assert net(x).shape == (2, 4)
