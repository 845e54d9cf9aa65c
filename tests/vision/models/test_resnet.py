import pytest
import torch

from tuner.vision.models._resnet import Padded
from tuner.vision.models.resnet import MODELS, resnet10


@pytest.mark.parametrize(
    ("name", "settings", "parameters"),
    [
        ("resnet10", {"width": 16}, 308_826),
        ("resnet18", {}, 11_173_962),
        ("resnet20", {}, 269_722),  # the paper's 0.27 M
    ],
)
def test_network_has_the_published_size(name, settings, parameters):
    net = MODELS[name].build(in_channels=3, num_classes=10, norm="batch", **settings)
    assert sum(p.numel() for p in net.parameters()) == parameters


def test_stem_and_each_later_stage_of_resnet10_halve_the_image():
    net = resnet10(in_channels=1, num_classes=4, width=4, norm="group")
    x = torch.randn(2, 1, 64, 64)
    assert net.stem(x).shape == (2, 4, 32, 32)
    assert net.blocks(net.stem(x)).shape == (2, 32, 4, 4)


def test_padded_takes_every_second_pixel_and_adds_zero_channels():
    x = torch.randn(2, 4, 6, 6)
    shortcut = Padded(4, 8, 2, "batch")
    short = shortcut(x)
    assert short.shape == (2, 8, 3, 3)
    assert torch.equal(short[:, 2:6], x[:, :, ::2, ::2])
    assert short[:, :2].eq(0).all()
    assert short[:, 6:].eq(0).all()
