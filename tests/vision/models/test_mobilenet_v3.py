import pytest
import torch

from tuner.vision.models._mobilenet_v3 import _to_eights, mobilenet_v3


@pytest.mark.parametrize(
    ("size", "shapes"),
    [
        ("small", {"1.block.1.fc1": (8, 16), "4.block.2.fc2": (96, 24), "12.0": (576, 96)}),
        ("large", {"4.block.2.fc1": (24, 72), "13.block.2.fc1": (168, 672), "16.0": (960, 160)}),
    ],
)
def test_features_have_torchvisions_names_and_shapes(size, shapes):
    network = mobilenet_v3(size, 5)
    state = network.state_dict()
    assert {name: tuple(state[f"features.{name}.weight"].shape[:2]) for name in shapes} == shapes
    assert state["features.1.block.0.0.weight"].shape == (16, 1, 3, 3)
    assert state["features.0.0.weight"].shape == (16, 3, 3, 3)
    assert list(state)[-2] == "classifier.3.weight"
    assert network.features(torch.randn(2, 3, 64, 64)).shape[2:] == (2, 2)
    assert network(torch.randn(2, 3, 33, 40)).shape == (2, 5)


def test_norms_and_dropout_are_the_papers():
    network = mobilenet_v3("small", 5)
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}
    assert network.classifier[2].p == 0.2


@pytest.mark.parametrize(("channels", "expected"), [(4, 8), (18, 24), (30, 32), (240, 240)])
def test_squeezed_channels_are_multiples_of_eight(channels, expected):
    assert _to_eights(channels) == expected
