"""The findings on the search space."""

import numpy as np
import pytest
from recorded import SPACE, around, losses, record

from tuner.reporting.advice.domains import FEWEST, check_space, extend_domain
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.space.parsing import parse_space

DOMAINS = [
    "uniform(0.5, 0.95)",
    "uniform(0, 0.86)",
    "uniform(0, 0.001)",
    "uniform(0, 1)",
    "uniform(0.1, 1.5)",
    "uniform(-3, -1)",
    "uniform(-3, 0)",
    "uniform(-2, 2)",
    "randint(10, 21)",
    "randint(1, 9)",
    "randint(3, 9)",
    "randint(0, 2)",
    "lograndint(16, 65)",
    "lograndint(1, 65)",
    "quniform(0, 8, 2)",
    "quniform(0, 0.9, 0.1)",
    "quniform(0, 0.5, 0.1)",
    "loguniform(0.001, 0.1)",
    "loguniform(1, 8, prior=2)",
    "choice([16, 32, 64])",
    "choice([0.1, 0.2, 0.3])",
    "choice([0, 1, 2])",
    "choice([1, 2, 4])",
    "choice([0.5, 0.7, 0.9])",
    "choice([0.9, 0.99, 0.999])",
    "choice([0, 0.0005, 0.001])",
    "choice([1e-4, 1, 2])",
    "choice([8, 4, 2])",
    "choice([0.9, 0.5, 0.1])",
    "choice([-1, 0, 2])",
]


def kinds(made):
    return [finding.kind for finding in check_space(made)]


@pytest.mark.parametrize(
    ("best", "side", "domain"),
    [
        (-0.2, "lower", "loguniform(1e-06, 1)"),
        (1.2, "upper", "loguniform(0.0001, 100.0)"),
    ],
)
def test_edge_names_the_side_and_extends_the_domain(best, side, domain):
    (finding,) = [f for f in check_space(record(around(best, 0.5))) if f.kind == "edge"]
    assert finding.severity == "high"
    assert (finding.figures["hyperparameter"], finding.figures["side"]) == ("lr", side)
    assert finding.command == f"tuner run --like digits 'search.space.lr={domain}'"


@pytest.mark.parametrize(("low", "is_edge"), [(9, True), (8, False)])
def test_edge_needs_more_leaders_in_a_half_than_chance_puts_there(low, is_edge):
    # Of ten leaders, where two hyperparameters share the chance of 5 %, nine tell
    points = iter(np.linspace(0, 1, FEWEST))

    def draw_point(rng):
        return np.array([next(points), rng.random()])

    def report(u_D, _rng):
        if u_D[0] < low / FEWEST:
            return losses(u_D[0])
        return losses(2.0 if u_D[0] < 0.5 else 1.5)

    made = record(report, FEWEST, point=draw_point)
    assert ("edge" in kinds(made)) == is_edge


@pytest.mark.parametrize(
    ("domain", "expected"),
    [("choice([1, 2, 3])", ["choice([1, 2, 3, 4])"]), ("choice([1, 2, 4])", [])],
)
def test_edge_extends_a_domain_to_what_the_classifier_takes(domain, expected):
    space = {**SPACE, "crop_padding": domain}  # at most half of an image of 8 px
    search = {"strategy": "random", "space": space}
    made = record(around(0.5, 0.5, 1.2), trainable=IMAGE_CLASSIFIER, search=search)
    edges = [finding.figures["domain"] for finding in check_space(made)]
    assert edges == expected


@pytest.mark.parametrize(("centre", "expected"), [(0.0, ["edge"]), (0.3, [])])
def test_edge_of_a_search_that_learns_takes_trials_at_the_end(centre, expected):
    search = {"strategy": "bayesopt", "space": SPACE}

    def point(rng):
        return np.clip(rng.normal([centre, 0.5], [0.02, 0.2]), 0, 1)

    assert kinds(record(around(centre, 0.5), point=point, search=search)) == expected


def test_wasted_domain_is_narrowed_to_the_leaders():
    made = record(
        lambda u_D, rng: losses(min((7 * (u_D[0] - 0.4)) ** 2, 1) + 0.1 * u_D[1] ** 2),
        100,
    )
    finding = next(f for f in check_space(made) if f.kind == "wasted")
    narrow = parse_space({"lr": finding.figures["domain"]})["lr"]
    assert 0.0001 < narrow.lower < 10**-2.4 < narrow.upper < 1


def test_useless_hyperparameter_is_fixed_at_the_best_value():
    made = record(lambda u_D, rng: losses((u_D[0] - 0.5) ** 2), 100)
    finding = next(f for f in check_space(made) if f.kind == "useless")
    assert finding.figures["hyperparameter"] == "momentum"
    best = made.trials[int(made.order_N[0])].config["momentum"]
    assert finding.command.endswith(f"search.space.momentum={best!r}")


def test_interaction_is_found():
    made = record(lambda u_D, rng: losses(1 + 4 * (u_D[0] - 0.5) * (u_D[1] - 0.5)), 100)
    (finding,) = [f for f in check_space(made) if f.kind == "interaction"]
    assert finding.figures["hyperparameters"] == ["lr", "momentum"]


def test_few_trials_say_how_many_are_needed():
    (finding,) = check_space(record(around(-0.2, 0.5), FEWEST - 3))
    assert (finding.kind, finding.severity) == ("few_trials", "open")
    assert finding.command == "tuner resume digits --add-samples 3"


@pytest.mark.parametrize("domain", DOMAINS)
def test_extended_domain_is_legal_and_wider(snapshot, domain):
    before = parse_space({"x": domain})["x"]
    wider = {side: extend_domain(before, side) for side in ("lower", "upper")}
    snapshot.compare_value(wider)
    for after in wider.values():
        assert after is None or parse_space({"x": f"{after}"})["x"] == after
