"""What a model that ships is built from, without the settings of its training.

A blueprint is whole: a default that changes later does not change what it builds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from tuner.classifier.catalog import MODELS, dataset_info
from tuner.classifier.datasets._dataset import DatasetInfo
from tuner.classifier.settings import ClassifierSettings, model_settings
from tuner.errors import Fault, unknown
from tuner.settings_base import FaultsError, Settings, parse

if TYPE_CHECKING:
    from torch import Tensor, nn


class Blueprint(Settings):
    """A model by its name, all of its own settings, and the images and classes that it is for."""

    name: str
    settings: dict[str, Any]
    in_channels: int = Field(ge=1, le=1024)
    image_size: int = Field(ge=1, le=4096, description="px of height and width")
    num_classes: int = Field(ge=1, le=2**20)

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        info = MODELS.get(self.name)
        if info is None:
            raise FaultsError(unknown("name", "model", self.name, MODELS))
        own = info.defaults.keys()
        if self.settings.keys() != own:
            rule = f"must be those of model {self.name!r}"
            raise FaultsError(Fault("settings", rule, sorted(self.settings), tuple(sorted(own))))
        _, faults = parse(info.settings, self.settings, "settings")
        if faults:
            raise FaultsError(*faults)
        if not info.takes(channels=self.in_channels, image_size=self.image_size):
            got = f"{self.in_channels}x{self.image_size}x{self.image_size}"
            raise FaultsError(
                Fault("image_size", f"model {self.name!r} takes {info.images}, got {got}")
            )
        return self

    def build(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The model with these weights, which it keeps, in evaluation mode; it can be trained on.

        It maps x_NCHW, normalised, to logits_NK. Nothing random is drawn, and the weights are all
        the memory that it takes. Raises RuntimeError where they are another model's.
        """
        import torch

        with torch.device("meta"):
            model = self.initial()
        model.load_state_dict(weights, assign=True)
        return model.eval()

    def initial(self) -> nn.Module:
        """The model in float32, its weights drawn from torch's global random number generator."""
        settings = MODELS[self.name].settings.model_validate(self.settings)
        return MODELS[self.name].build(
            in_channels=self.in_channels, num_classes=self.num_classes, **dict(settings)
        )


def blueprint_of(settings: ClassifierSettings, data: DatasetInfo | None = None) -> Blueprint:
    """The blueprint of the model that `settings` train, for their data set's images.

    data: the data set's description, where it is known.
    """
    data = data or dataset_info(settings)
    return Blueprint(
        name=settings.model,
        settings=model_settings(settings),
        in_channels=data.channels,
        image_size=data.image_size,
        num_classes=data.num_classes,
    )
