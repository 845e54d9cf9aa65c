"""Parzen estimators: densities over the unit cube of a space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.searchers import _parzen
from tuner.search.searchers._parzen import (
    Parzen,
    adaptive_widths,
    likelier,
    neighbour_widths,
    scott_widths,
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


def density(encoding: Encoding, count: int = 6, seed: int = 0) -> Parzen:
    u_ND = encoding.snap(np.random.default_rng(seed).random((count, len(encoding))))
    return Parzen(u_ND, neighbour_widths(u_ND), encoding)


def test_the_density_of_a_line_has_the_mass_of_the_uniform_one() -> None:
    u_MD = (np.arange(20_000)[:, None] + 0.5) / 20_000
    assert np.exp(density(LINE).log_density(u_MD)).mean() == pytest.approx(1, abs=1e-3)


def test_the_mass_over_branches_is_that_of_the_uniform_density() -> None:
    u_MD = BRANCHES.snap(np.random.default_rng(1).random((100_000, len(BRANCHES))))
    assert np.exp(density(BRANCHES).log_density(u_MD)).mean() == pytest.approx(1, abs=0.03)


def test_draws_are_distributed_as_the_density_says() -> None:
    mixture = density(LINE)
    drawn_M = mixture.draw(20_000, np.random.default_rng(2))[:, 0]
    grid = (np.arange(1000)[:, None] + 0.5) / 1000
    mass = np.exp(mixture.log_density(grid)).reshape(10, 100).mean(axis=1)
    counts, _ = np.histogram(drawn_M, bins=10, range=(0, 1))
    assert np.allclose(counts / 2000, mass, atol=0.1)


def test_draws_have_a_column_only_where_its_branch_is_chosen() -> None:
    u_MD = density(BRANCHES).draw(200, np.random.default_rng(3))
    model, C = u_MD[:, 0], u_MD[:, 1]
    assert (np.isnan(C) == (model > 0.5)).all()
    assert 0 < np.isnan(C).sum() < 200


def test_no_point_at_all_is_the_uniform_density() -> None:
    nothing = np.empty((0, 1))
    empty = Parzen(nothing, neighbour_widths(nothing), LINE)
    assert empty.log_density(np.array([[0.1], [0.9]])).tolist() == [0, 0]


def test_a_point_of_more_weight_is_drawn_near_more_often() -> None:
    u_ND = np.array([[0.1], [0.9]])
    mixture = Parzen(u_ND, np.full((2, 1), 0.03), LINE, np.array([9.0, 1.0]))
    u_MD = mixture.draw(1000, np.random.default_rng(4))
    assert ((u_MD < 0.3).sum() - (u_MD > 0.7).sum()) > 300


def test_a_column_in_which_neighbours_agree_is_narrow() -> None:
    u_ND = np.column_stack([np.full(5, 0.5), np.linspace(0, 1, 5)])
    width_ND = neighbour_widths(u_ND)
    assert np.allclose(width_ND[:, 0], 0.03)
    assert (width_ND[:, 1] > 0.2).all()


def test_widths_have_the_points_order_and_spare_what_is_inactive() -> None:
    u_ND = np.array([[0.9, np.nan], [0.1, 0.2], [0.15, 0.7]])
    for widths in (neighbour_widths, adaptive_widths):
        width_ND = widths(u_ND)
        assert np.allclose(widths(u_ND[::-1])[::-1], width_ND)
        assert width_ND[0, 1] == 1
    assert adaptive_widths(u_ND)[0, 0] > adaptive_widths(u_ND)[1, 0]


def test_scotts_widths_shrink_with_the_number_of_points_alone() -> None:
    rng = np.random.default_rng(5)
    few, many = scott_widths(rng.random((4, 2))), scott_widths(0.01 * rng.random((64, 2)))
    assert few.shape == (4, 2)
    assert np.allclose(few, 0.2 * 4 ** (-1 / 6))
    assert np.allclose(many, few[0, 0] / 16 ** (1 / 6))
    assert scott_widths(np.empty((0, 2))).shape == (0, 2)


def test_widened_kernels_draw_further_away() -> None:
    mixture = Parzen(np.array([[0.5]]), np.array([[0.05]]), LINE)
    near, far = (
        np.abs(mixture.draw(2000, np.random.default_rng(6), widening=widening) - 0.5)
        for widening in (1.0, 3.0)
    )
    assert np.median(far) > 1.5 * np.median(near)


@given(spaces, st.integers(0, 12), st.integers(0, 12), st.integers(0, 99))
def test_the_likeliest_of_any_space_come_first(space, goods, others, seed) -> None:
    encoding, rng = Encoding(space), np.random.default_rng(seed)
    good, other = (
        Parzen(u_ND, scott_widths(u_ND), encoding)
        for u_ND in (encoding.snap(rng.random((n, len(encoding)))) for n in (goods, others))
    )
    found = likelier(good, other, 16, rng, widening=2.0)
    u_MD = np.array([next(found) for _ in range(16)])
    ratio_M = good.log_density(u_MD) - other.log_density(u_MD)
    assert np.isfinite(ratio_M).all()
    assert (np.diff(ratio_M) <= 0).all()
    for u_D in u_MD:
        encoding.encode(encoding.decode(u_D))


def test_a_density_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    u_MD = BRANCHES.snap(np.random.default_rng(1).random((50, len(BRANCHES))))
    whole = density(BRANCHES).log_density(u_MD)
    monkeypatch.setattr(_parzen, "_MOST_ENTRIES", 20)
    assert np.allclose(density(BRANCHES).log_density(u_MD), whole, rtol=1e-12)
