import pytest
import torch
from torch import nn

from tuner.vision.models._resnet import Block, Padded, projected, resnet


def test_resnet_draws_weights_in_order_of_its_layers():
    seen = []

    def shortcut(*shape):
        seen.append((shape, torch.get_rng_state()))
        return projected(*shape)

    torch.manual_seed(0)
    shape = {"in_channels": 3, "num_classes": 2, "widths": (4, 6), "blocks_per_stage": 1}
    made = resnet(**shape, norm="group", shortcut=shortcut)
    torch.manual_seed(0)
    nn.Conv2d(3, 4, 3, bias=False)
    for shape in ((4, 4), (4, 4), (4, 6), (6, 6)):
        nn.Conv2d(*shape, 3, bias=False)
    [(shape, state)] = seen
    assert shape == (4, 6, 2, "group")
    assert torch.equal(state, torch.get_rng_state())
    nn.Conv2d(4, 6, 1, bias=False)
    head = nn.Linear(6, 2)
    assert torch.equal(made.head.weight, head.weight)


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
