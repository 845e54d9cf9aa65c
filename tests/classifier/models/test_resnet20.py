import torch
from torch import nn

from tuner.classifier.models.resnet20 import Block, ResNet20


def test_has_the_papers_size():
    net = ResNet20(in_channels=3, num_classes=10, norm="batch")
    assert sum(p.numel() for p in net.parameters()) == 269_722  # the paper's 0.27 M
    weighted = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weighted) == 20


def test_shortcut_halves_the_image_and_pads_channels_with_zeros():
    x = torch.randn(2, 4, 6, 6)
    short = Block(4, 8, norm="batch")._shortcut(x)
    assert short.shape == (2, 8, 3, 3)
    assert torch.equal(short[:, 2:6], x[:, :, ::2, ::2])
    assert short[:, :2].eq(0).all()
    assert short[:, 6:].eq(0).all()


def test_norm_sets_the_layers():
    net = ResNet20(in_channels=3, num_classes=10, norm="group")
    assert not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
