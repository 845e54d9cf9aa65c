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
def test_networks_have_torchvisions_names_and_shapes(kind, snapshot):
    network = NETWORKS[kind]()
    shapes = ((name, *tensor.shape) for name, tensor in network.state_dict().items())
    snapshot("\n".join(" ".join(map(str, row)) for row in shapes))
    assert network(torch.randn(2, 3, 33, 40)).shape == (2, 5)
    if kind in ("small", "large"):
        assert network.features(torch.randn(2, 3, 64, 64)).shape[2:] == (2, 2)


def test_norms_and_dropout_are_the_papers():
    network = NETWORKS["small"]()
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}
    assert network.classifier[2].p == 0.2


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_images_shrink_by_32_and_each_stage_halves_once(kind):
    network = NETWORKS[kind]()
    x = network.maxpool(network.conv1(torch.randn(2, 3, 64, 64)))
    sizes = [
        (x := network.get_submodule(f"layer{n}")(x)).shape[-1] for n in (1, 2, 3, 4)
    ]
    assert sizes == [16, 8, 4, 2]
    if kind == "bottleneck":
        assert network.layer2[0].conv1.stride == (1, 1)
        assert network.layer2[0].conv2.stride == (2, 2)
