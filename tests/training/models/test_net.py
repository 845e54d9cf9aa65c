import torch

from tuner.training.models.net import Net


def test_layers_have_the_given_sizes():
    net = Net(in_channels=3, num_classes=10, l1=7, l2=5)
    assert (net.fc1.out_features, net.fc2.out_features) == (7, 5)
    assert net(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_is_the_tutorials_network():
    net = Net(in_channels=3, num_classes=10, l1=120, l2=84)
    assert sum(p.numel() for p in net.parameters()) == 62_006
