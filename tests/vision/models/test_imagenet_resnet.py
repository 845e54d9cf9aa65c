import pytest
import torch

from tuner.vision.models._imagenet_resnet import ResNet

NAMES = {
    False: {"conv1": (128, 64, 3, 3), "bn2": (128,), "downsample.0": (128, 64, 1, 1)},
    True: {"conv2": (128, 128, 3, 3), "bn3": (512,), "downsample.0": (512, 256, 1, 1)},
}


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
