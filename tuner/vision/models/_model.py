"""The declaration of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue

from tuner.errors import Fault
from tuner.spec.settings import Settings

if TYPE_CHECKING:
    from torch import nn

# Mean, std: of pixels from 0 to 1
PixelStats = tuple[tuple[float, ...], tuple[float, ...]]
IMAGENET: PixelStats = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Hyperparameters of several models: the same name means the same everywhere
Norm = Literal["batch", "group"]
Width = Annotated[int, Field(ge=1, le=4096, description="channels of the first layer")]


class Normed(Settings):
    """The hyperparameter of a network with norm layers."""

    norm: Norm = "batch"


class Widened(Settings):
    """The hyperparameters of a small network with norm layers."""

    width: Width = 16
    norm: Norm = "batch"


class Arguments(Settings):
    """The hyperparameters of a foreign network."""

    model_args: dict[str, JsonValue] = Field(
        {},
        description="arguments, by name, of a network of your own, of torchvision or of timm",
    )


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """How a model is built, its hyperparameters, and the images it takes.

    build: called with `in_channels`, `num_classes` and the hyperparameters by name; returns a
    module in float32 that maps x_NCHW to logits_NK. It draws the weights from torch's global random
    number generator. settings: the hyperparameters, each with its default. smallest, largest: the
    images' height and width in px. channels: None for any number. layers: the most stages into
    which the model can be split.

    foreign: whether the network is the user's or a library's. It has `Arguments`, `build` is also
    called with `image_size`, and its inputs and outputs are unknown before it is built. faults:
    of these `model_args`; it may import the network. pretrained: the file of its library's weights,
    called with the SHA-256 of the file that is meant, or None for any; raises CheckpointError if it
    is missing. pixel_stats: the mean and std of each channel by which these weights' images were
    normalised. parts: the models side by side in it, each under its name in the state dict and
    without its head; the weights are theirs.
    """

    build: Callable[..., nn.Module]
    settings: type[Settings] = Settings
    smallest: int = 1
    largest: int = 4096
    channels: int | None = None
    layers: int = 1
    foreign: bool = False
    faults: Callable[[Mapping[str, Any]], Iterable[Fault]] = lambda model_args: ()
    pretrained: Callable[[str | None], Path] | None = None
    pixel_stats: Callable[[], PixelStats] | None = None
    parts: tuple[str, ...] = ()

    @property
    def has_pretrained(self) -> bool:
        """Whether there are pretrained weights of a library, on this machine or elsewhere."""
        return self.pretrained is not None or bool(self.parts)

    @property
    def defaults(self) -> dict[str, Any]:
        return {
            name: field.default for name, field in self.settings.model_fields.items()
        }

    def can_take(self, channels: int, image_size: int) -> bool:
        """Whether the model can be built for images of this shape."""
        return (
            self.channels in (None, channels)
            and self.smallest <= image_size <= self.largest
        )

    @property
    def images(self) -> str:
        """The images that the model takes, in words."""
        size = f"{self.smallest}x{self.smallest}"
        if self.smallest == self.largest:
            return f"{self.channels or 'C'}x{size} images"
        return f"images of at least {size}"
