from functools import partial

import pytest
import torch

from tuner.vision.models._torchvisions import ResNet, build_mobilenet_v3

NETWORKS = {
    "small": partial(build_mobilenet_v3, "small", 5),
    "large": partial(build_mobilenet_v3, "large", 5),
    "basic": partial(ResNet, (1, 2, 1, 1), 5, bottleneck=False),
    "bottleneck": partial(ResNet, (1, 2, 1, 1), 5, bottleneck=True),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_have_torchvisions_layers(kind, snapshot):
    """Their names, and of each its shape, stride, epsilon, momentum and dropout."""
    network = NETWORKS[kind]()
    snapshot(str(network))
    assert network(torch.randn(2, 3, 33, 40)).shape == (2, 5)
