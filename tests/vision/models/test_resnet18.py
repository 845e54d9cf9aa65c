from tuner.vision.models.resnet18 import build


def test_has_the_known_size_of_the_cifar_version():
    net = build(in_channels=3, num_classes=10, norm="batch")
    assert sum(p.numel() for p in net.parameters()) == 11_173_962
