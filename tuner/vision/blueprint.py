"""A model's name and hyperparameters, without the settings of its training.

A blueprint is complete: a default that changes later does not change its model. Of a custom network
it has only the name, and not the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from tuner.errors import Fault, SpecError
from tuner.spec.settings import FaultsError, Settings, parse
from tuner.trial.failures import format_error, is_out_of_memory
from tuner.vision.catalog import load_dataset_info
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.model_catalog import find_model_info, is_own_network
from tuner.vision.models._model import ModelInfo
from tuner.vision.settings import (
    ClassifierSettings,
    build_settings_error,
    resolve_model_settings,
)

if TYPE_CHECKING:
    from torch import Tensor, nn


class Blueprint(Settings):
    """A model by its name, all of its hyperparameters, and its images and classes.

    name: as in the setting `model`. Checking a blueprint imports no network; building it does.
    """

    name: str
    settings: dict[str, Any]
    in_channels: int = Field(ge=1, le=1024)
    image_size: int = Field(ge=1, le=4096, description="px of height and width")
    num_classes: int = Field(ge=1, le=2**20)

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        try:
            info = self.info
        except FaultsError as error:
            raise FaultsError(
                *(fault.add_prefix("name") for fault in error.faults)
            ) from None
        own = info.defaults.keys()
        if self.settings.keys() != own:
            rule = f"must be those of model {self.name!r}"
            raise FaultsError(
                Fault("settings", rule, sorted(self.settings), tuple(sorted(own)))
            )
        _, faults = parse(info.settings, self.settings, "settings")
        if faults:
            raise FaultsError(*faults)
        if not info.can_take(self.in_channels, self.image_size):
            rule = f"model {self.name!r} takes {info.images}, got {self.shape}"
            raise FaultsError(Fault("image_size", rule))
        return self

    @property
    def shape(self) -> str:
        return f"{self.in_channels}x{self.image_size}x{self.image_size}"

    @property
    def info(self) -> ModelInfo:
        return find_model_info(self.name)

    @property
    def code(self) -> str | None:
        """The dotted path of the user's code that is imported to build it, or None."""
        return self.name if is_own_network(self.name) else None

    @property
    def library(self) -> str | None:
        package = self.name.partition(":")[0]
        return package if package != self.name and self.code is None else None

    def build(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The model with these weights in evaluation mode; it can be trained further.

        It maps x_NCHW, normalised, to logits_NK. A model that ships takes the tensors themselves,
        without a copy. Torch's random state stays. Raises RuntimeError for another model's weights,
        and what `initial` raises.
        """
        import torch

        if not self.info.foreign:
            with torch.device("meta"):
                model = self.initialize_model()
            model.load_state_dict(weights, assign=True)
            return model.eval()
        # Its constructor may compute with its tensors, and `weights` need not hold all of them
        with torch.random.fork_rng(devices=[]):
            model = self.initialize_model()
        dtype = next(
            (w.dtype for w in weights.values() if w.is_floating_point()), torch.float32
        )
        model.to(dtype).load_state_dict(weights)
        return model.eval()

    def initialize_model(self) -> nn.Module:
        """The model in float32, drawn from torch's global generator. Raises SpecError."""
        info = self.info
        settings = dict(info.settings.model_validate(self.settings))
        shape = {"in_channels": self.in_channels, "num_classes": self.num_classes}
        if not info.foreign:
            return info.build(**shape, **settings)
        import torch
        from torch import nn

        try:
            model = info.build(**shape, image_size=self.image_size, **settings)
            if not isinstance(model, nn.Module):
                rule = f"must build a torch.nn.Module, and built {type(model).__name__}"
                raise self.build_error(rule)
            if any(
                isinstance(p, nn.UninitializedParameter) for p in model.parameters()
            ):
                model.eval()  # lazy layers are initialised by blank images
                with torch.no_grad():
                    model(
                        torch.zeros(
                            2, self.in_channels, self.image_size, self.image_size
                        )
                    )
            return model.train()
        except SpecError:
            raise
        except Exception as error:  # a foreign network may raise any type
            if is_out_of_memory(error):
                raise
            rule = f"cannot be built for images of {self.shape} ({format_error(error)})"
            raise self.build_error(rule) from error

    def build_error(self, rule: str) -> SpecError:
        """The error for a foreign network that cannot be trained."""
        return build_settings_error(Fault("model", rule, self.name))


def build_blueprint(
    settings: ClassifierSettings, data: DatasetInfo | None = None
) -> Blueprint:
    """The blueprint of the model that `settings` train. data: of their data set, if known."""
    data = data or load_dataset_info(settings.data)
    return Blueprint(
        name=settings.model,
        settings=resolve_model_settings(settings),
        in_channels=data.channels,
        image_size=data.image_size,
        num_classes=data.num_classes,
    )
