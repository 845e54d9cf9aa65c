"""An exported folder, as its receiver opens it: the model in two lines, without Ray.

    import tuner
    model = tuner.load_model("best_model")

No code of the folder runs: the configuration is JSON, the weights are safetensors, and the models
are tuner's, torchvision's or timm's. A custom network is imported from the receiver's Python path,
and only on request.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import IO, TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from tuner.errors import (
    CheckpointError,
    DataError,
    SpecError,
    UsageError,
    translate_error,
)
from tuner.experiment.files import EXPERIMENT, compute_sha256, read_object
from tuner.spec.sections import Refits
from tuner.spec.settings import Settings, parse
from tuner.spec.space.spaces import merge_config
from tuner.vision.blueprint import Blueprint
from tuner.vision.models._model import PixelStats
from tuner.vision.settings import ClassifierSettings
from tuner.vision.sources._pixels import DEEPEST
from tuner.vision.weight_files import load_safetensors
from tuner.vision.weights import CONFIG, EXPORTED
from tuner.wording import find_program

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from tuner.vision.evaluation import Predictor

METRICS = "metrics.json"
CARD = "README.md"
FOLDER = "checkpoint"  # with the files of a plain function's checkpoint
FORMAT = 2  # of config.json


class Resize(Settings):
    """How an image of any size becomes a square; the model card has it as a program.

    jpeg_draft: first, a JPEG is decoded at 1/2, 1/4 or 1/8 if both sides keep this multiple of the
    size. exif: turned upright by its EXIF orientation. matte: the colour behind transparent pixels.
    mode: Pillow's. crop: the largest square in the middle, its left and upper edge rounded down.
    filter: Pillow's, which antialiases; an image of the right size stays. reducing_gap: Pillow's:
    far larger images are first reduced by an integer factor, to at least this multiple.
    """

    exif: Literal[True] = True
    mode: Literal["L", "RGB"]
    crop: Literal["center square"] = "center square"
    filter: Literal["bilinear"] = "bilinear"
    matte: Literal["white"] = "white"
    reducing_gap: Literal[2] = 2
    jpeg_draft: Literal[2] = 2


class ImageInput(Settings):
    """The model's input: (pixels_NCHW - mean) / std of each channel, for pixels from 0 to 1.

    channels, size, resize: how images become pixels. bits: the bits of a channel that deep images
    use, of which the upper 8 count; None if the model was trained on images of 8 bits. mirrored:
    whether its measured logits are means over an image and its mirror image; upside_down: and over
    both upside down.
    """

    model_config = ConfigDict(extra="ignore")  # exports of earlier versions say more

    channels: int
    size: int
    resize: Resize
    bits: int | None = None
    layout: Literal["NCHW"] = "NCHW"
    pixels: Literal["0 to 1"] = "0 to 1"
    dtype: Literal["float32", "float64"] = "float32"
    mean: tuple[float, ...]
    std: tuple[float, ...]
    mirrored: bool = False
    upside_down: bool = False

    @property
    def stats(self) -> PixelStats:
        return self.mean, self.std

    def check_bits(self, used: int | None) -> str | None:
        """Why deep images that use these bits have no certain scale, or None.

        The training has seen none, and the brightest pixel does not tell the bits of a dark image.
        """
        if self.bits is not None or used in (None, DEEPEST):
            return None
        return (
            f"it uses {used} of {DEEPEST} bits a channel, and the model was trained on images of "
            f"8: save it with 8 bits, or with all {DEEPEST}"
        )


class Calibration(Settings):
    """temperature: divides the logits. images: of the validation split, to which it is fitted; of a
    refit, with the model of the trial that it takes after.

    error_before, error_after: the expected calibration error of the probabilities on these images,
    from 0 to 1, with temperature 1 and with this one.
    """

    temperature: float = Field(gt=0)
    images: int
    error_before: float
    error_after: float


class Data(Settings):
    """The data of the training, and the images in each split; the rest is as in `DatasetInfo`."""

    name: str
    title: str
    origin: str
    licence: str
    train: int
    validation: int
    test: int
    split_seed: int
    baseline: float | None = None
    own_splits: tuple[str, ...] | None = None
    content: str = ""


class Member(Settings):
    """One of the models that a combined model is made of: its network, and its origin."""

    model: Blueprint
    config: dict[str, Any]
    seed: int
    trial_id: str
    epoch: int
    checkpoint_sha256: str


class Combined(Settings):
    """A model that is made of those of several trials, the best first.

    how: "soup", the average of their weights; or "ensemble", all of them, whose logits are the
    logarithms of the mean of their probabilities.
    """

    how: Literal["soup", "ensemble"]
    members: tuple[Member, ...]


class ExportConfig(Settings):
    """config.json. training: the Learner's constants beside its `config`.

    model, input, data: None if the trainable is not the image classifier that ships.
    calibration: None if the validation images were missing at the export. weights_sha256: None if
    the export is a plain function's checkpoint folder. experiment, trial_id, epoch: of the weights.
    search: of the config. refit: of a model that was trained on the training and validation images
    together, the trial that it takes after; else None. combined: of a model of several trials; the
    other entries are then those of its best member. None for the model of one trial.
    """

    model_config = ConfigDict(extra="ignore")

    format: int = FORMAT
    trainable: str
    model: Blueprint | None
    input: ImageInput | None
    data: Data | None
    classes: tuple[str, ...] = ()
    calibration: Calibration | None = None
    training: dict[str, Any]
    config: dict[str, Any]
    seed: int
    weights_sha256: str | None
    experiment: str
    trial_id: str
    epoch: int
    checkpoint_sha256: str
    search: dict[str, Any]
    refit: Refits | None = None
    combined: Combined | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    git_revision: str | None = None

    @property
    def plans(self) -> tuple[Blueprint, ...]:
        """The networks that compute: one, none of another trainable, or those of an ensemble."""
        if self.combined and self.combined.how == "ensemble":
            return tuple(member.model for member in self.combined.members)
        return (self.model,) if self.model else ()

    @property
    def code(self) -> str | None:
        """The dotted path of a custom network that is imported to build the model, or None."""
        return next((plan.code for plan in self.plans if plan.code is not None), None)


@dataclass(frozen=True, slots=True)
class Export:
    """An exported folder, its config.json read and checked."""

    folder: Path
    config: ExportConfig

    def load_weights(self) -> dict[str, Tensor]:
        """Every tensor by its name, on the CPU; CheckpointError if missing or not as exported."""
        if self.config.weights_sha256 is None:
            raise UsageError(
                f"{self.folder} holds the files of a checkpoint of {self.config.trainable} in "
                f"{FOLDER}/, which only that can load"
            )
        path = self.folder / EXPORTED
        if not os.path.lexists(path):
            raise CheckpointError(f"{self.folder} lacks its weights, {EXPORTED}")
        if compute_sha256(path) != self.config.weights_sha256:
            raise CheckpointError(
                f"{path} is damaged or of another export: its sha256 is not that in {CONFIG}"
            )
        return load_safetensors(path, str(path))

    def load_model(self, *, trust_code: bool = False) -> nn.Module:
        """The model as `load_model` returns it, on the CPU."""
        network = self.load_network(trust_code=trust_code)
        pixels = self.config.input
        flips = (pixels.mirrored, pixels.upside_down) if pixels else (False, False)
        if any(flips) or self.temperature != 1:
            network.register_forward_hook(AsMeasured(*flips, self.temperature))
        return network

    def load_network(self, *, trust_code: bool = False) -> nn.Module:
        """The network alone, which `model` measures over its views and at its temperature."""
        plan = self.config.model
        if plan is None:
            raise UsageError(
                f"{self.folder} is a model of {self.config.trainable}, which its own class must "
                f"rebuild, with the `config` and `training` of {self.folder / CONFIG}; load_model "
                "rebuilds those of the image classifier that ships with tuner"
            )
        code = self.config.code
        if code is not None and not trust_code:
            raise UsageError(
                f"{self.folder} is a model of the network {code}, whose code is not in it; "
                "load_model imports that, from your own Python path, where you trust it: "
                f"load_model({str(self.folder)!r}, trust_code=True)"
            )
        from tuner.vision.ensemble import build_ensemble

        weights = self.load_weights()
        plans = self.config.plans
        what = f"{self.folder / EXPORTED} does not fit model {plan.name!r}"
        with translate_error(CheckpointError, what, of=RuntimeError):
            return (
                plan.build(weights)
                if len(plans) == 1
                else build_ensemble(plans, weights)
            )

    def build_predictor(
        self,
        settings: ClassifierSettings,
        device: torch.device,
        *,
        trust_code: bool,
    ) -> Predictor:
        """The network on `device`, as it was measured. Raises as `load_network`."""
        from tuner.vision.evaluation import Predictor

        plan, given = self.require_input()
        network = self.load_network(trust_code=trust_code)
        return Predictor(
            network, plan, settings, device, given.stats, temperature=self.temperature
        )

    @property
    def temperature(self) -> float:
        """What divides the logits before they become probabilities."""
        return self.config.calibration.temperature if self.config.calibration else 1.0

    def require_input(self) -> tuple[Blueprint, ImageInput]:
        """The model and its input. Raises UsageError where the export does not say."""
        plan = self.config.model
        pixels = self.config.input
        if plan is None or pixels is None:
            raise UsageError(
                f"{self.folder} does not say which images {self.config.trainable} takes"
            )
        return plan, pixels

    def read_pixels(self, image: Path | str | IO[bytes]) -> NDArray[np.uint8]:
        """pixels_HWC of an image file as in training. Raises what Pillow raises, and ValueError."""
        from PIL import Image

        from tuner.vision.sources._pixels import count_bits, crop_square

        plan, given = self.require_input()
        with Image.open(image) as opened:
            if doubt := given.check_bits(count_bits(opened)):
                raise ValueError(doubt)
            shape = {"size": plan.image_size, "channels": plan.in_channels}
            return crop_square(opened, **shape, bits=given.bits)

    def parse_settings(self) -> ClassifierSettings:
        """The settings of the training. Raises SpecError if they are invalid."""
        settings, faults = parse(
            ClassifierSettings, merge_config(self.config.training, self.config.config)
        )
        if settings is None:
            raise SpecError(faults, str(self.folder / CONFIG))
        return settings


@dataclass(frozen=True, slots=True)
class AsMeasured:
    """A forward hook: in evaluation mode the logits of a network become those that were measured.

    mirrored, upside_down: as of `ImageInput`. temperature: divides them. A hook, since the network
    keeps its class, its layers and the names of its weights.
    """

    mirrored: bool
    upside_down: bool
    temperature: float

    def __call__(
        self, network: nn.Module, inputs: tuple[Tensor], logits_NK: Tensor
    ) -> Tensor:
        if network.training:
            return logits_NK
        if not (self.mirrored or self.upside_down):
            return logits_NK / self.temperature
        from tuner.vision.augment import build_views

        (x_NCHW,) = inputs
        _, *views = build_views(
            x_NCHW, mirrored=self.mirrored, upside_down=self.upside_down
        )
        sum_NK = sum((network.forward(view) for view in views), logits_NK)
        return sum_NK / (1 + len(views)) / self.temperature


def load_model(folder: Path | str, *, trust_code: bool = False) -> nn.Module:
    """The model of an exported folder, on the CPU and in evaluation mode, with its weights.

    It maps x_NCHW, images as `load_image` returns them, to the logits_NK that were measured: means
    over an image and its flipped views if the training evaluated so, divided by the temperature, so
    that their softmax is what `tuner predict` shows. In training mode it is the network alone.
    Imports no Ray and runs no code of the folder.

    trust_code: whether to import a custom network that the folder names, such as my_module:MyNet.
    It is imported from this Python's path, never from the folder, and called with the folder's
    `model_args`. Networks of torchvision and timm need no trust.

    Raises UsageError for a folder that is no export, an export of another trainable than the
    built-in image classifier, or a network that is not trusted; SpecError for an invalid
    config.json or a missing network; CheckpointError for weights that are missing, damaged, or not
    the network's.
    """
    return read_export(folder).load_model(trust_code=trust_code)


def load_image(image: Path | str | IO[bytes], folder: Path | str) -> Tensor:
    """The input x_NCHW of an exported folder's model for one image, on the CPU.

    image: a file that Pillow reads, by its path or open. It is turned upright, put on white,
    cropped to the square in the middle and resized. Its pixels, from 0 to 1, are normalised to
    (pixel - mean) / std; the dtype is config.json's, usually float32. `torch.cat` makes a batch of
    several. Imports no Ray.

    Raises as `load_model` does for the folder, and DataError for an image that cannot be read, or
    one in colour for a model of grey images.
    """
    import torch

    from tuner.vision.batches import build_normaliser

    export = read_export(folder)
    plan, pixels = export.require_input()
    with translate_error(DataError, f"{image} cannot be read"):
        # Pillow may raise any type
        rows_1P = torch.from_numpy(export.read_pixels(image).reshape(1, -1).copy())
    dtype = getattr(torch, pixels.dtype)
    normalise = build_normaliser(pixels.stats, size=plan.image_size, dtype=dtype)
    return normalise(rows_1P).contiguous()


def is_export(folder: Path | str) -> bool:
    """Whether `folder` has the files of an export, damaged or not."""
    folder = Path(folder).expanduser()
    return os.path.isfile(folder / CONFIG) and not os.path.isfile(folder / EXPERIMENT)


def read_export(folder: Path | str) -> Export:
    """The export in `folder`. Raises UsageError for another folder, SpecError if it is invalid."""
    folder = Path(folder).expanduser()
    path = folder / CONFIG
    if os.path.isfile(folder / EXPERIMENT):
        raise UsageError(
            f"{folder} is an experiment; export its best model: "
            f"{find_program()} export {shlex.quote(str(folder))} --to DIR"
        )
    try:
        raw = read_object(path)
    except OSError as error:
        raise UsageError(
            f"{folder} is no exported model: cannot read {path} ({error.strerror}); "
            f"{find_program()} export NAME --to DIR writes one"
        ) from error
    if raw.get("format") != FORMAT:
        has = shown(raw.get("format"))
        raise UsageError(
            f"{path} has format {has}; this version reads {FORMAT}: export it again"
        )
    config, faults = parse(ExportConfig, raw)
    if config is None:
        raise SpecError(faults, str(path))
    return Export(folder, config)
