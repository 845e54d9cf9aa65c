"""Priors: as text, and as densities and draws in the unit cube."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_domain, parse_space
from tuner.spec.space.priors import Priors
from tuner.spec.space.spaces import find_expected_values

TEXTS = (
    "loguniform(0.0001, 1.0, prior=0.01)",
    "uniform(0.0, 1.0, prior=0.25, confidence=2.0)",
    "randint(1, 9, prior=3)",
    "quniform(0.0, 1.0, 0.1, prior=0.3)",
    "choice([16, 32, 64], prior=32)",
    "choice(['sgd', 'adamw'], prior='adamw', confidence=3)",
)


def priors_of(**space):
    return Priors(Encoding(parse_space(space)))


@pytest.mark.parametrize("text", TEXTS)
def test_text_with_a_prior_is_read_back(text):
    assert str(parse_domain(text)) == text


def test_priors_of_a_space_without_any_are_false():
    assert not priors_of(lr="loguniform(1e-4, 1)", k=3)


def test_expected_has_the_values_with_priors_alone():
    layer = {"width": TEXTS[2], "free": "uniform(0, 1)"}
    space = parse_space({"lr": TEXTS[0], "k": 3, "layer": layer})
    assert find_expected_values(space) == {"lr": 0.01, "layer": {"width": 3}}


@given(
    st.sampled_from(
        [
            "uniform(0, 1, prior={}, confidence={})",
            "choice(['a', 'b', 'c'], prior='b', confidence={1})",
        ]
    ),
    st.floats(0, 1),
    st.floats(0.3, 5),
)
def test_drawn_points_have_the_density(text, prior, confidence):
    priors = priors_of(x=text.format(prior, confidence))
    u_N = (np.arange(20_000) + 0.5) / 20_000
    drawn_N = np.array([priors.transform(np.array([u]))[0] for u in u_N[::10]])
    assert ((drawn_N >= 0) & (drawn_N <= 1)).all()
    density_N = 2 * np.exp(priors.log_density(u_N[:, None])) - 1  # half of it is even
    assert density_N.mean() == pytest.approx(1, abs=0.01)
    for edge in (1 / 3, 2 / 3):
        assert (drawn_N < edge).mean() == pytest.approx(
            density_N[u_N < edge].sum() / 20_000, abs=0.01
        )


@pytest.mark.parametrize("confidence", [0.1, 0.5, 1, 3])
@pytest.mark.parametrize(
    "values",
    ["choice(['sgd', 'adamw'], {})", "choice(['sgd', 'adamw', 'muon', 'lion'], {})"],
)
def test_prior_of_a_choice_favours_its_value_at_any_confidence(values, confidence):
    text = values.format(f"prior='adamw', confidence={confidence}")
    encoding = Encoding(parse_space({"x": text}))
    options = encoding.columns[0].domain.values
    u_M1 = (np.arange(len(options))[:, None] + 0.5) / len(options)
    priors = Priors(encoding)
    density_M = np.exp(priors.log_density(u_M1))
    assert density_M[1] > 1 > density_M[0]
    drawn = [priors.transform(np.array([u]))[0] for u in (np.arange(400) + 0.5) / 400]
    counts = Counter(encoding.decode([u])["x"] for u in drawn)
    assert counts["adamw"] > 1.05 * counts["sgd"]


def test_favour_fades_with_trials_and_ignores_inactive_columns():
    priors = priors_of(x="uniform(0, 1, prior=0.5)")
    u_MD = np.array([[0.5], [0.0]])
    early, late = (priors.compute_bonus(u_MD, trials=n, trust=1.0) for n in (1, 100))
    np.testing.assert_allclose(late, early / 100)
    assert early[0] > early[1]
    space = {"m": "choice([{'k': 'a', 'x': uniform(0, 1, prior=0.2)}, {'k': 'b'}])"}
    priors = priors_of(**space)
    assert priors.compute_bonus(np.array([[0.75, np.nan]]), trials=1, trust=1.0) == [
        0.0
    ]


@pytest.mark.parametrize("failed", [0, 3])
def test_trust_depends_on_how_the_priors_rank_the_losses(failed):
    priors = priors_of(x="uniform(0, 1, prior=0.5)")
    u_ND = np.linspace(0.3, 1, 12)[:, None]
    loss_N = abs(u_ND[:, 0] - 0.5)
    loss_N[len(loss_N) - failed :] = np.inf  # the furthest away
    assert priors.estimate_trust(u_ND, loss_N) > 0.99
    assert priors.estimate_trust(u_ND, -loss_N) < 0.05
    lots_N = np.random.default_rng(0).permutation(loss_N)
    assert 0.3 < priors.estimate_trust(u_ND, lots_N) < 0.99
    assert (
        priors.compute_bonus(u_ND, trials=12, trust=0.5)[0]
        < priors.compute_bonus(u_ND, trials=12, trust=1)[0]
    )


@pytest.mark.parametrize("losses", [[], [1.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
def test_trust_without_evidence_is_whole(losses):
    u_ND = np.linspace(0.5, 1, len(losses))[:, None]
    assert (
        priors_of(x="uniform(0, 1, prior=0.5)").estimate_trust(u_ND, np.array(losses))
        == 1.0
    )


def test_sampled_draws_from_a_mistrusted_prior_more_rarely():
    priors = priors_of(x="uniform(0, 1, prior=0.5)")
    even = np.array([0.01])
    lots = np.linspace(0, 1, 200)
    moved = [
        sum(priors.sample(even, 10, lot, trust=trust)[0] != 0.01 for lot in lots)
        for trust in (1.0, 0.5, 0.0)
    ]
    assert moved[0] > 1.5 * moved[1] > moved[2] == 0
