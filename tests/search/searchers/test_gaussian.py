"""The Gaussian process: interpolation, uncertainty, beliefs, expected improvement."""

from copy import copy

import numpy as np
from scipy.stats import norm

from tuner.search.searchers._gaussian import GaussianProcess, log_expected_improvement


def process(count=20, noise=0.0):
    rng = np.random.default_rng(0)
    x_NF = rng.random((count, 2))
    y_N = np.sin(6 * x_NF[:, 0]) + noise * rng.standard_normal(count)
    return GaussianProcess(x_NF, y_N, np.array([0, 1])), x_NF, y_N


def test_predict_without_noise_goes_through_the_observations():
    gp, x_NF, y_N = process()
    mean_N, sd_N = gp.predict(x_NF)
    assert np.abs(mean_N - y_N).max() < 0.02
    assert sd_N.max() < 0.1
    assert gp.log_scales_G[1] > gp.log_scales_G[0]  # the second feature does nothing


def test_fit_estimates_noise():
    assert process(60, noise=0.5)[0].noise > 20 * process(60)[0].noise


def test_believe_lowers_the_uncertainty_and_keeps_the_mean():
    gp, _, _ = process(6)
    query = np.array([[0.9, 0.9], [0.1, 0.2]])
    mean_before, sd_before = gp.predict(query)
    other = copy(gp)
    other.believe(query[:1])
    mean_after, sd_after = other.predict(query)
    assert np.allclose(mean_before, mean_after, atol=1e-3)
    assert sd_after[0] < 0.3 * sd_before[0]
    assert np.array_equal(gp.predict(query)[1], sd_before)


def test_expected_improvement_matches_the_formula_and_its_tail():
    mean_M = np.array([0.0, 1.0, -1.0])
    sd_M = np.array([1.0, 0.5, 2.0])
    z = (0.2 - mean_M) / sd_M
    expected = (0.2 - mean_M) * norm.cdf(z) + sd_M * norm.pdf(z)
    assert np.allclose(np.exp(log_expected_improvement(mean_M, sd_M, 0.2)), expected)
    far = log_expected_improvement(np.array([5.0, 50.0, 5e4]), np.ones(3), 0.0)
    assert np.isfinite(far).all()
    assert (np.diff(far) < 0).all()
