"""The model of learning curves, against curves whose ends are known."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.curves import CurveModel, interpolate_curves, list_milestones

EPOCHS = list_milestones(50)


def power_laws(count, noise=0.0, seed=0):
    """Losses at the milestones of curves that fall to different ends at different speeds."""
    rng = np.random.default_rng(seed)
    end = rng.uniform(0.05, 0.5, (count, 1))
    speed = rng.uniform(0.3, 1.5, (count, 1))
    losses = end + 0.5 * np.array(EPOCHS, dtype=float) ** -speed
    return losses * np.exp(noise * rng.standard_normal(losses.shape))


def cut(loss_NK, known):
    """All but the first half of the trials cut off after `known` milestones."""
    loss_NK = loss_NK.copy()
    loss_NK[len(loss_NK) // 2 :, known:] = np.nan
    return loss_NK


@given(st.integers(1, 10_000))
def test_milestones_ascend_from_the_first_epoch_to_the_last(max_t):
    epochs = list_milestones(max_t)
    assert epochs[0] == 1
    assert epochs[-1] == max_t
    assert all(a < b <= 3 * a for a, b in pairwise(epochs))


def test_at_milestones_interpolates_until_the_end():
    table = interpolate_curves(
        [{1: 8.0, 4: 2.0}, {2: 3.0}, {1: 1.0, 2: 0.5, 4: 0.1}], (1, 2, 4)
    )
    np.testing.assert_allclose(table, [[8, 5, 2], [3, 3, np.nan], [1, 0.5, 0.1]])


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_ends_of_later_trials_are_known_better(noise):
    whole = power_laws(80, noise)
    errors = []
    deviations = []
    for known in range(1, len(EPOCHS)):
        model = CurveModel(cut(whole, known))
        mean_N, sd_N = model.predict_ends()
        errors.append(np.abs(mean_N - model.scale(whole[:, -1]))[40:].mean())
        deviations.append(sd_N[40:].mean())
    assert errors[-1] < 0.5 * errors[0]
    assert deviations == sorted(deviations, reverse=True)


@pytest.mark.parametrize("count", [9, 20, 60])
def test_ends_of_trials_stopped_by_halving_are_covered(count):
    off = []
    for seed in range(20):
        whole = power_laws(count, noise=0.03, seed=seed)
        halved = whole.copy()
        left = np.arange(count)
        for k in range(len(EPOCHS) - 1):
            left = left[np.argsort(whole[left, k])[: max(2 * len(left) // 3, 3)]]
            halved[np.setdiff1d(np.arange(count), left), k + 1 :] = np.nan
        model = CurveModel(halved)
        stopped = np.isnan(halved[:, -1])
        mean_N, sd_N = model.predict_ends()
        error = np.abs(model.scale(whole[:, -1]) - mean_N)
        off += (error / np.maximum(sd_N, 1e-9))[stopped].tolist()
    assert (np.array(off) <= 1).mean() >= 0.6
    assert (np.array(off) > 2).mean() <= 0.07


@pytest.mark.parametrize("odd", [0.0, 1e300, -1e300])
def test_ends_of_diverged_and_equal_curves_are_finite(odd):
    losses = cut(power_laws(12), 3)
    losses[1] = odd
    for table in (losses, np.full((5, 4), odd)):
        model = CurveModel(table)
        mean_N, sd_N = model.predict_ends()
        assert np.isfinite(mean_N).all()
        assert np.isfinite(sd_N).all()
        assert np.isfinite(model.scale.unscale_losses(mean_N + 5 * sd_N)).all()
