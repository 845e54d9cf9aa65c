"""What the module of a model declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue

from tuner.errors import Fault
from tuner.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor, nn

# Hyperparameters of several models: the same name means the same everywhere
Norm = Literal["batch", "group"]
Width = Annotated[int, Field(ge=1, le=4096, description="channels of the first layer")]


class NormSettings(Settings):
    """All that there is to choose of a residual network of fixed depth and widths."""

    norm: Norm = "batch"


class Arguments(Settings):
    """All that is known of the hyperparameters of a network from elsewhere."""

    model_args: dict[str, JsonValue] = Field(
        {}, description="arguments, by name, of a network of your own, of torchvision or of timm"
    )


def no_faults(arguments: Mapping[str, Any]) -> Iterable[Fault]:
    """What there is to say of a model that ships, whose settings say all themselves."""
    return ()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """How a model is built, the hyperparameters that are its own, and the images it takes.

    build: called with `in_channels`, `num_classes` and the model's own hyperparameters by name;
    returns a module in float32 that maps x_NCHW to logits_NK. It draws the weights from torch's
    global random number generator. settings: the hyperparameters, each with its default.
    smallest, largest: the images' height and width in px. channels: None for any number.
    layers: the most stages that the model can be split into. prepare: called with the new model
    and x_NCHW of some training images, for a model that learns from them before it trains.

    foreign: whether the network is from elsewhere. It has `Arguments`, `build` is called with
    `image_size` too, and what images it takes, and what it returns, shows only once it is built.
    faults: what is wrong with these `model_args`; to tell, it may import the network.
    pretrained: the file of its library's weights; CheckpointError where it is not there.
    """

    build: Callable[..., nn.Module]
    settings: type[Settings] = Settings
    smallest: int = 1
    largest: int = 4096
    channels: int | None = None
    layers: int = 1
    prepare: Callable[[nn.Module, Tensor], None] | None = None
    foreign: bool = False
    faults: Callable[[Mapping[str, Any]], Iterable[Fault]] = no_faults
    pretrained: Callable[[], Path] | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        """The model's own hyperparameters with their defaults."""
        return {name: field.default for name, field in self.settings.model_fields.items()}

    def takes(self, *, channels: int, image_size: int) -> bool:
        """Whether the model can be built for images of this shape."""
        return self.channels in (None, channels) and self.smallest <= image_size <= self.largest

    @property
    def images(self) -> str:
        """The images that the model takes, in words."""
        size = f"{self.smallest}x{self.smallest}"
        if self.smallest == self.largest:
            return f"{self.channels or 'C'}x{size} images"
        return f"images of at least {size}"
