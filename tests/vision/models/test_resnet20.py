from torch import nn

from tuner.vision.models.resnet20 import build


def test_has_the_papers_size():
    net = build(in_channels=3, num_classes=10, norm="batch")
    assert sum(p.numel() for p in net.parameters()) == 269_722  # the paper's 0.27 M
    weighted = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weighted) == 20
