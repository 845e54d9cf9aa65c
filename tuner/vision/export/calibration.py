"""One temperature that makes a model's probabilities as sure as it is right.

Guo et al. 2017, "On Calibration of Modern Neural Networks": the logits are divided by the
temperature that minimises the loss on the validation split; the classes stay the same.
"""

# N images, K classes

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

from tuner.errors import DataError
from tuner.spec.settings import FaultsError
from tuner.vision.catalog import archive_of, decoded_before, is_at_hand
from tuner.vision.datasets._dataset import data_folder
from tuner.vision.export.read import Calibration, ImageInput
from tuner.vision.settings import ClassifierSettings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tuner.vision.batches import ImageSet
    from tuner.vision.blueprint import Blueprint

MOST = 2000  # validation images that the temperature is fitted to
_BINS = 15  # of probabilities, for the calibration error
_LOG_RANGE = (-3.0, 3.0)  # of the logarithm of the temperature
_STEPS = 60  # of the search by thirds, which narrows that to 1e-10 of it


def calibrated(
    network: nn.Module,
    plan: Blueprint,
    pixels: ImageInput,
    content: str,
    settings: ClassifierSettings,
    *,
    fold: int,
) -> Calibration | None:
    """The calibration of a trained network, or None if its validation images are not here.

    content: of the data of the training. settings: of the training; those in an export do not say
    where the images are. fold: in which it was trained. Neither downloads nor decodes images.
    """
    from tuner.vision.evaluation import Predictor, usable_device

    images = _images_here(settings, fold)
    if images is None or images.info.content != content:
        return None
    device = usable_device()
    predictor = Predictor(network, plan, settings, device, mean=pixels.mean, std=pixels.std)
    return fitted(*predictor.logits_of(images, images.splits["validation"][:MOST]))


def _images_here(settings: ClassifierSettings, fold: int) -> ImageSet | None:
    """The images of the training, on the CPU, if they are at hand and decoded."""
    import torch

    from tuner.vision.batches import image_set, of_trial

    archive = archive_of(settings.dataset)
    if archive and archive.is_missing(data_folder(settings.data_dir)):
        return None
    try:
        choice = settings if is_at_hand(settings.dataset) else decoded_before(settings)
        images = image_set(choice, torch.device("cpu")) if choice else None
        return images and of_trial(images, settings, fold=fold)
    except (DataError, FaultsError):
        return None


def fitted(logits_NK: Tensor, labels_N: Tensor) -> Calibration:
    """The calibration for these logits."""
    import torch.nn.functional as F

    logits_NK = logits_NK.double()

    def loss(log_temperature: float) -> float:
        scaled = logits_NK / exp(log_temperature)
        return float(F.cross_entropy(scaled, labels_N))

    low, high = _LOG_RANGE  # the loss is convex in 1 / temperature, so it has one minimum
    for _ in range(_STEPS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    temperature = exp((low + high) / 2)
    before, after = (calibration_error(logits_NK / t, labels_N) for t in (1.0, temperature))
    return Calibration(
        temperature=temperature, images=len(labels_N), error_before=before, error_after=after
    )


def calibration_error(logits_NK: Tensor, labels_N: Tensor) -> float:
    """The mean distance between probability and accuracy, over bins of the likeliest class's."""
    import torch

    probability_N, predicted_N = logits_NK.softmax(1).max(1)
    gap_N = probability_N - (predicted_N == labels_N).double()
    bin_N = (probability_N * _BINS).long().clamp_max(_BINS - 1)
    sums = torch.zeros(_BINS, dtype=torch.float64).index_add_(0, bin_N, gap_N)
    return float(sums.abs().sum()) / len(labels_N)
