"""The temperature of an exported model."""

import pytest
import torch

from tuner.vision.export.calibration import compute_calibration_error, fit_calibration


def logits_of(accuracy_scale, *, count=4000):
    """Logits that are `accuracy_scale` times as sure as they are right, and the labels."""
    generator = torch.Generator().manual_seed(0)
    true_NK = 2 * torch.randn(count, 5, generator=generator)
    labels_N = true_NK.softmax(1).multinomial(1, generator=generator)[:, 0]
    return accuracy_scale * true_NK, labels_N


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_fitted_finds_how_much_too_sure_the_logits_are(scale):
    calibration = fit_calibration(*logits_of(scale))
    assert calibration.temperature == pytest.approx(scale, rel=0.1)
    assert calibration.error_after < 0.03
    assert calibration.images == 4000


@pytest.mark.parametrize("count", [3, 19, 2000])
def test_fitted_to_images_of_which_none_is_wrong_is_not_certain(count):
    labels_N = torch.arange(count) % 3
    logits_NK = 5 * torch.nn.functional.one_hot(labels_N, 3).float()
    temperature = fit_calibration(logits_NK, labels_N).temperature
    probability = float((logits_NK / temperature).softmax(1).max())
    assert probability == pytest.approx((count + 1) / (count + 2), abs=1e-3)


def test_calibration_error_is_the_distance_of_probability_and_accuracy():
    logits_NK = torch.tensor([[9.0, -9.0]] * 4, dtype=torch.float64)
    assert compute_calibration_error(
        logits_NK, torch.tensor([0, 0, 0, 1])
    ) == pytest.approx(0.25, abs=1e-6)
