"""Where trials diverge."""

import numpy as np
import pytest
from recorded import losses, record

from tuner.reporting.advice.divergence import check_divergence, find_rule
from tuner.spec.space.constraints import Condition


def diverging(where):
    return lambda u_D, rng: losses(np.nan if where(u_D) else float(u_D.sum()))


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (lambda u_D: u_D[0] > 0.7, ("lr",)),
        (lambda u_D: u_D[0] > 0.4 and u_D[1] > 0.4, ("lr", "momentum")),
    ],
)
def test_divergence_rule_is_an_expression_that_holds_for_diverged_trials(where, names):
    made = record(diverging(where), 120)
    rule = find_rule(made)
    assert rule is not None
    condition = Condition(rule[0])
    assert set(condition.names) == set(names)
    holds = np.array([condition.is_true(trial.config) for trial in made.trials])
    assert np.array_equal(holds, rule[1])
    assert (holds == made.diverged_N).mean() > 0.9


def test_divergence_finding_forbids_the_region():
    (finding,) = check_divergence(record(diverging(lambda u_D: u_D[0] > 0.7), 120))
    assert finding.severity == "high"
    assert "'search.forbid=[" in finding.command
    assert finding.figures["inside"] >= finding.figures["hits"] >= 25


def test_divergence_anywhere_gives_no_rule():
    made = record(lambda u_D, rng: losses(np.nan if rng.random() < 0.3 else 0.5), 120)
    assert find_rule(made) is None
