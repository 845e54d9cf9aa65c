"""Parzen estimators: densities over the unit cube of a space."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.searchers._parzen import (
    Parzen,
    compute_neighbour_widths,
    compute_scott_widths,
    draw_by_ratio,
)
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space
from tuner.testing.spaces import spaces

BRANCHES = Encoding(
    parse_space(
        {
            "model": "choice([{'kind': 'svm', 'C': uniform(0, 1)}, {'kind': 'knn'}])",
            "rate": "uniform(0, 1)",
        }
    )
)
LINE = Encoding(parse_space({"x": "uniform(0, 1)"}))


def density(encoding, count=6, seed=0):
    u_ND = encoding.snap(np.random.default_rng(seed).random((count, len(encoding))))
    return Parzen(u_ND, compute_neighbour_widths(u_ND), encoding)


def test_log_density_on_a_line_has_mass_one():
    u_MD = (np.arange(20_000)[:, None] + 0.5) / 20_000
    assert np.exp(density(LINE).log_density(u_MD)).mean() == pytest.approx(1, abs=1e-3)


def test_log_density_over_branches_has_mass_one():
    u_MD = BRANCHES.snap(np.random.default_rng(1).random((100_000, len(BRANCHES))))
    assert np.exp(density(BRANCHES).log_density(u_MD)).mean() == pytest.approx(
        1, abs=0.03
    )


def test_draw_follows_the_density():
    mixture = density(LINE)
    drawn_M = mixture.draw(20_000, np.random.default_rng(2))[:, 0]
    grid = (np.arange(1000)[:, None] + 0.5) / 1000
    mass = np.exp(mixture.log_density(grid)).reshape(10, 100).mean(axis=1)
    counts, _ = np.histogram(drawn_M, bins=10, range=(0, 1))
    assert np.allclose(counts / 2000, mass, atol=0.1)


@given(spaces, st.integers(0, 12), st.integers(0, 12), st.integers(0, 99))
def test_likelier_yields_the_likeliest_first_in_any_space(space, goods, others, seed):
    encoding = Encoding(space)
    rng = np.random.default_rng(seed)
    good, other = (
        Parzen(u_ND, compute_scott_widths(u_ND), encoding)
        for u_ND in (
            encoding.snap(rng.random((n, len(encoding)))) for n in (goods, others)
        )
    )
    points = draw_by_ratio(good, other, 16, rng, widening=2.0, favour=lambda u_MD: 0.0)
    u_MD = np.array([next(points) for _ in range(16)])
    ratio_M = good.log_density(u_MD) - other.log_density(u_MD)
    assert np.isfinite(ratio_M).all()
    assert (np.diff(ratio_M) <= 0).all()
    for u_D in u_MD:
        encoding.encode(encoding.decode(u_D))
