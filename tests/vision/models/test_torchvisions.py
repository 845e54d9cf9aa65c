import pytest
import torch

from tuner.vision.models._torchvisions import ResNet, mobilenet_v3

NAMES = {
    False: {"conv1": (128, 64, 3, 3), "bn2": (128,), "downsample.0": (128, 64, 1, 1)},
    True: {"conv2": (128, 128, 3, 3), "bn3": (512,), "downsample.0": (512, 256, 1, 1)},
}


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


@pytest.mark.parametrize("bottleneck", NAMES)
def test_stages_have_torchvisions_names_and_shapes(bottleneck):
    network = ResNet((1, 2, 1, 1), 5, bottleneck=bottleneck)
    state = network.state_dict()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    for name, shape in NAMES[bottleneck].items():
        assert state[f"layer2.0.{name}.weight"].shape == shape
    assert "layer2.1.downsample.0.weight" not in state
    assert ("layer1.0.downsample.1.running_var" in state) == bottleneck
    assert not any("relu" in name or "maxpool" in name for name in state)


@pytest.mark.parametrize("bottleneck", NAMES)
def test_images_shrink_by_32_and_each_stage_halves_once(bottleneck):
    network = ResNet((1, 1, 1, 1), 5, bottleneck=bottleneck)
    x = network.maxpool(network.conv1(torch.randn(2, 3, 64, 64)))
    sizes = [(x := network.get_submodule(f"layer{n}")(x)).shape[-1] for n in (1, 2, 3, 4)]
    assert sizes == [16, 8, 4, 2]
    assert network(torch.randn(2, 3, 33, 40)).shape == (2, 5)
    if bottleneck:
        assert network.layer2[0].conv1.stride == (1, 1)
        assert network.layer2[0].conv2.stride == (2, 2)
