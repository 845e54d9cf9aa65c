import pytest
import torch
from torch import nn

from tuner.vision.models._resnet import Block, Padded, projected


def test_padded_takes_every_second_pixel_and_adds_zero_channels():
    x, shortcut = torch.randn(2, 4, 6, 6), Padded(4, 8, 2, "batch")
    short = shortcut(x)
    assert short.shape == (2, 8, 3, 3)
    assert torch.equal(short[:, 2:6], x[:, :, ::2, ::2])
    assert short[:, :2].eq(0).all()
    assert short[:, 6:].eq(0).all()
    assert list(shortcut.parameters()) == []


@pytest.mark.parametrize("shortcut", [Padded, projected])
def test_block_of_one_shape_has_an_identity_shortcut(shortcut):
    assert isinstance(Block(4, 4, "batch", shortcut).shortcut, nn.Identity)
    assert not isinstance(Block(4, 6, "batch", shortcut).shortcut, nn.Identity)
