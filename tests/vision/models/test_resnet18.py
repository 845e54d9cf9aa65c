import torch
from torch import nn

from tuner.vision.models.resnet18 import build


def test_has_the_known_size_of_the_cifar_version():
    net = build(in_channels=3, num_classes=10, norm="batch")
    assert sum(p.numel() for p in net.parameters()) == 11_173_962


def test_stem_keeps_the_image_size_and_each_later_stage_halves_it():
    net = build(in_channels=3, num_classes=10, norm="group")
    x = torch.randn(1, 3, 32, 32)
    assert net.stem(x).shape == (1, 64, 32, 32)
    assert net.blocks(net.stem(x)).shape == (1, 512, 4, 4)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
