"""A small CNN for small images: three 3x3 convolutions, one pooling, a global mean."""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from torch import Tensor, nn

from tuner.classifier.models.norm import norm_layer
from tuner.classifier.models.pool import GlobalMean


def _conv(in_channels: int, out_channels: int, norm: str) -> list[nn.Module]:
    return [
        nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
        norm_layer(norm, out_channels),
        nn.ReLU(inplace=True),
    ]


class SmallCNN(nn.Module):
    """conv `width` - conv 2 `width` - max pool - conv 4 `width` - global mean - linear."""

    def __init__(self, *, in_channels: int, num_classes: int, width: int, norm: str) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_conv(in_channels, width, norm),
            *_conv(width, 2 * width, norm),
            nn.MaxPool2d(2),
            *_conv(2 * width, 4 * width, norm),
        )
        self.head = nn.Linear(4 * width, num_classes)

    def layers(self) -> list[nn.Module]:
        """The layers of which this is the composition, for a split into stages."""
        return [*self.features, GlobalMean(), self.head]

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """logits_NK."""
        logits_NK: Tensor = self.head(self.features(x_NCHW).mean((2, 3)))
        return logits_NK
