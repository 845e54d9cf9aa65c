"""torchvision's networks without it: names, sizes and, where it is installed, outputs."""

import pytest
import torch
from own_networks import import_torchvision

from tuner.vision.models._imagenet import NETWORKS

# tensors of the state dict, parameters, its last weight
SIZES = {
    "resnet18": (122, 11_689_512, "fc.weight", (1000, 512)),
    "resnet34": (218, 21_797_672, "fc.weight", (1000, 512)),
    "resnet50": (320, 25_557_032, "fc.weight", (1000, 2048)),
    "mobilenet_v3_small": (244, 2_542_856, "classifier.3.weight", (1000, 1024)),
    "mobilenet_v3_large": (312, 5_483_032, "classifier.3.weight", (1000, 1280)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network_has_the_published_size(name):
    network = NETWORKS[name](1000)
    tensors, parameters, head, shape = SIZES[name]
    state = network.state_dict()
    assert len(state) == tensors
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert list(state)[-2] == head
    assert state[head].shape == shape


@pytest.mark.parametrize("name", NETWORKS)
def test_network_equals_torchvisions_bit_for_bit(name):
    """With the same seed, too: a trial is the same on a machine without torchvision."""
    torchvision = import_torchvision()
    torch.manual_seed(1)
    theirs = torchvision.models.get_model(name, weights=None)
    torch.manual_seed(1)
    ours = NETWORKS[name](1000)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for buffer in [*theirs.buffers()]:
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    x = torch.randn(2, 3, 97, 97)
    for training in (False, True):
        torch.manual_seed(2)
        expected = theirs.train(training)(x)
        torch.manual_seed(2)
        assert torch.equal(ours.train(training)(x), expected)
