"""What a searcher knows of trials, how they end, and what of it a model is fitted to.

Trials of different age are compared at equal epochs only.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.searchers._observations import (
    ENDED,
    FAILED,
    LOST,
    ModelInput,
    Observation,
    Observations,
    expected_losses,
    model_input,
)
from tuner.spec.sections import Objective
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space


def trial(x: int = 1) -> Observation:
    return Observation({"x": x}, "random")


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "high"])
def test_a_trial_that_ends_without_a_number_has_failed(value: Any) -> None:
    seen = trial()
    seen.add(0.5, 1)
    seen.add(value, 2)
    seen.end()
    assert seen.status == FAILED
    assert seen.reports == {1: 0.5}


def test_one_that_comes_back_to_numbers_has_not_failed() -> None:
    seen = trial()
    seen.add(math.nan, 1)
    seen.add(0.5, 2)
    seen.end()
    assert seen.status == ENDED


def test_all_that_were_tried_must_not_come_again_but_for_lost_ones() -> None:
    observations = Observations()
    observations.warm = [trial(1)]
    observations.trials = {"a": trial(2), "b": trial(3), "c": trial(4)}
    observations.trials["b"].end(lost=True)
    observations.trials["c"].end(error=True)
    assert observations.trials["b"].status == LOST
    assert len(observations.tried()) == 3
    assert [trial.config["x"] for trial in observations] == [1, 2, 3, 4]
    assert observations.running("a") is observations.trials["a"]
    assert observations.running("b") is observations.running("unknown") is None


ENCODING = Encoding(parse_space({"x": "uniform(0, 1)"}))


def data(
    *reports: dict[int, float], mode: Literal["min", "max"] = "min", max_t: int | None = None
) -> ModelInput:
    observations = Observations()
    observations.trials = {
        str(i): Observation({"x": (i + 0.5) / len(reports)}, "random", reports=reported)
        for i, reported in enumerate(reports)
    }
    return model_input(observations, ENCODING, Objective(mode=mode), max_t)


def test_trials_without_a_value_are_pending() -> None:
    found = data({1: 2.0}, {})
    assert found.u_ND.tolist() == [[0.25]]
    assert found.pending_PD.tolist() == [[0.75]]
    assert found.live_N.tolist() == [True]


def test_less_is_better_for_the_model_whatever_the_mode() -> None:
    assert data({1: 3.0}, mode="max").curves == [{1: -3.0}]


@pytest.mark.parametrize(("max_t", "epoch"), [(10, 10), (None, 4)])
def test_a_value_of_a_whole_trial_counts_at_its_last_epoch(max_t: int | None, epoch: int) -> None:
    assert data({0: 7.0}, {4: 1.0}, max_t=max_t).curves[0] == {epoch: 7.0}


def test_of_no_trials_there_is_nothing_to_know() -> None:
    found = data()
    assert (found.u_ND.shape, found.pending_PD.shape, found.failed_ND.shape) == ((0, 1),) * 3
    assert len(found.loss_N) == 0


def test_a_search_stops_early_once_a_trial_is_over_before_another() -> None:
    old, young = Observation({"x": 0.1}, "random"), Observation({"x": 0.2}, "random")
    observations = Observations()
    observations.trials = {"a": old, "b": young}

    def stops_early() -> bool:
        return model_input(observations, ENCODING, Objective(), None).stops_early

    assert not stops_early()
    old.reports, young.reports = {1: 1.0, 2: 0.5}, {1: 2.0}
    assert not stops_early()  # the younger one still runs
    young.end()
    assert stops_early()
    young.reports[2] = 1.0
    assert not stops_early()


loss = st.integers(-640, 640).map(lambda k: k / 128)  # sums of these are exact
curve = st.lists(loss, min_size=1, max_size=6).map(lambda losses: dict(enumerate(losses, start=1)))


def test_trials_of_one_age_have_their_last_loss() -> None:
    assert expected_losses([{1: 3.0, 2: 1.0}, {1: 0.0, 2: 2.0}]).tolist() == [1.0, 2.0]


def test_a_longer_trial_is_not_better_for_its_age() -> None:
    young, old = {1: 2.0}, {1: 2.5, 2: 1.0}
    assert np.argmin(expected_losses([young, old])) == 0


def test_a_stopped_trial_stands_where_those_like_it_ended() -> None:
    went_on = [{1: 1.0, 2: 0.1}, {1: 2.0, 2: 0.3}, {1: 3.0, 2: 0.9}]
    found = expected_losses([*went_on, {1: 1.5}, {1: 9.0}, {1: 0.5}])
    assert np.allclose(found, [0.1, 0.3, 0.9, 0.2, 0.9, 0.1])
    assert found[4] > found[2]
    assert found[5] < found[0]


def test_those_that_nobody_can_be_compared_with_are_spread_over_the_others() -> None:
    assert expected_losses([{10: 0.1}, {10: 0.9}, {1: 7.0}, {1: 5.0}]).tolist() == [
        0.1,
        0.9,
        0.9,
        0.1,
    ]


@given(st.lists(curve, min_size=1, max_size=8), st.randoms())
def test_expected_losses_depend_neither_on_order_nor_on_a_drop_shared_by_all_epochs(curves, random):
    shuffled = random.sample(range(len(curves)), len(curves))
    found = expected_losses(curves)
    assert np.allclose(expected_losses([curves[i] for i in shuffled]), found[shuffled])
    last = max(max(c) for c in curves)
    moved = [{t: loss - 100 * t for t, loss in c.items()} for c in curves]
    assert np.allclose(expected_losses(moved), found - 100 * last, atol=1e-6)


@given(st.lists(curve, max_size=8))
def test_expected_losses_are_finite(curves) -> None:
    assert np.isfinite(
        expected_losses([{t: 3e307 * x for t, x in c.items()} for c in curves])
    ).all()


def test_one_that_diverged_does_not_decide_where_others_stand() -> None:
    steady = [{1: 1.0, 2: 0.5}, {1: 1.1, 2: 0.6}]
    found = expected_losses([*steady, {1: 2.0, 2: 1e308}, {1: 1.05}])
    assert found[-1] == pytest.approx(0.55)


@given(st.lists(curve, min_size=1, max_size=8))
def test_expected_losses_keep_the_order_of_trials_of_one_age(curves) -> None:
    found = expected_losses(curves)
    for i, a in enumerate(curves):
        for j, b in enumerate(curves):
            if max(a) == max(b) and a[max(a)] < b[max(b)]:
                assert found[i] <= found[j]
