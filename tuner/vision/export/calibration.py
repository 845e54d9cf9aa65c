"""The temperature of an exported model, fitted to its validation split.

It divides the logits, so that the probabilities are as sure as they are right, and minimises the
loss (Guo et al. 2017, "On Calibration of Modern Neural Networks"); the classes stay the same.
"""

# N images, K classes

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

from tuner.errors import DataError
from tuner.spec.settings import FaultsError
from tuner.vision.catalog import find_archive, find_decoded, is_at_hand
from tuner.vision.datasets._dataset import resolve_data_folder
from tuner.vision.export.read import Calibration
from tuner.vision.settings import ClassifierSettings

if TYPE_CHECKING:
    from torch import Tensor

    from tuner.vision.batches import ImageSet

MOST_CALIBRATED = 2000  # validation images that the temperature is fitted to
_BINS = 15  # of probabilities, for the calibration error
_LOG_RANGE = (-3.0, 3.0)  # of the logarithm of the temperature


def load_local_images(settings: ClassifierSettings, fold: int) -> ImageSet | None:
    """The images of a training, on the CPU, or None if they are not at hand and decoded."""
    import torch

    from tuner.vision.batches import load_image_set, split_for_trial

    archive = find_archive(settings.dataset)
    if archive and archive.is_missing(resolve_data_folder(settings.data_dir)):
        return None
    try:
        data = settings.data
        choice = data if is_at_hand(data.dataset) else find_decoded(data)
        images = load_image_set(choice, torch.device("cpu")) if choice else None
        return images and split_for_trial(images, settings, fold=fold)
    except (DataError, FaultsError):
        return None


def fit_calibration(logits_NK: Tensor, labels_N: Tensor) -> Calibration:
    """The calibration for the logits of images that `sample_evenly` has chosen.

    Each label counts as right with probability (N + 1) / (N + 2), as in Platt 1999, "Probabilistic
    Outputs for Support Vector Machines", section 2.2: that none of a few images is wrong does not
    make a model certain.
    """
    import torch.nn.functional as F
    from scipy.optimize import minimize_scalar

    logits_NK = logits_NK.double()
    count, classes = logits_NK.shape
    # Spread over all classes
    doubt = min(1.0, classes / max(classes - 1, 1) / (count + 2))

    def compute_loss(log_temperature: float) -> float:
        scaled = logits_NK / exp(log_temperature)
        return float(F.cross_entropy(scaled, labels_N, label_smoothing=doubt))

    # The loss is convex in 1 / temperature, so it has one minimum
    temperature = exp(
        minimize_scalar(compute_loss, bounds=_LOG_RANGE, options={"xatol": 1e-9}).x
    )
    before, after = (
        compute_calibration_error(logits_NK / t, labels_N) for t in (1.0, temperature)
    )
    return Calibration(
        temperature=temperature,
        images=len(labels_N),
        error_before=before,
        error_after=after,
    )


def compute_calibration_error(logits_NK: Tensor, labels_N: Tensor) -> float:
    """The mean distance between probability and accuracy, over bins of the likeliest class's."""
    import torch

    probability_N, predicted_N = logits_NK.softmax(1).max(1)
    gap_N = probability_N - (predicted_N == labels_N).double()
    bin_N = (probability_N * _BINS).long().clamp_max(_BINS - 1)
    sums = torch.zeros(_BINS, dtype=torch.float64).index_add_(0, bin_N, gap_N)
    return float(sums.abs().sum()) / len(labels_N)
