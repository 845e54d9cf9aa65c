import torch
from torch import nn

from tuner.classifier.models.norm import norm_layer
from tuner.classifier.models.resnet import ResNet


class Small(ResNet):
    widths = (4, 6)

    def stage(self, in_channels, channels, *, norm):
        self.seen = [*getattr(self, "seen", []), (in_channels, channels)]
        self.before = torch.get_rng_state()
        yield nn.Conv2d(in_channels, channels, 1)
        yield norm_layer(norm, channels)


def test_the_stem_draws_its_weights_before_the_blocks_and_they_before_the_head():
    torch.manual_seed(0)
    made = Small(in_channels=3, num_classes=2, norm="group")
    assert made.seen == [(4, 4), (4, 6)]
    torch.manual_seed(0)
    nn.Conv2d(3, 4, 3, bias=False)
    nn.Conv2d(4, 4, 1)
    assert torch.equal(made.before, torch.get_rng_state())
    nn.Conv2d(4, 6, 1)
    head = nn.Linear(6, 2)
    assert torch.equal(made.head.weight, head.weight)
