import torch
import torch.nn.functional as F

from tuner.vision.models.net import build


def test_build_has_the_parameters_of_the_tutorial():
    net = build(in_channels=3, num_classes=10, l1=120, l2=84)
    assert sum(p.numel() for p in net.parameters()) == 62_006


def test_build_equals_the_tutorials_order_of_pooling():
    torch.manual_seed(0)
    net = build(in_channels=3, num_classes=10, l1=20, l2=10)
    x = torch.randn(4, 3, 32, 32)
    y = F.max_pool2d(F.relu(net.conv1(x)), 2)
    y = F.max_pool2d(F.relu(net.conv2(y)), 2)
    y = F.relu(net.fc2(F.relu(net.fc1(y.flatten(1)))))
    assert torch.equal(net(x), net.fc3(y))
