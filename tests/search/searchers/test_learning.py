"""What the searchers that learn share: their trials, and when the model is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ray.tune.search import Searcher

from tuner.errors import SpecError
from tuner.search.searchers._learning import LearningSearch, draw_untried, sobol_point
from tuner.search.searchers._observations import ModelInput
from tuner.spec.space.constraints import Constraints
from tuner.spec.space.encoding import Array, Encoding
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import config_key

SPACE = {"x": "uniform(0, 1)"}


class Middle:
    """Proposes the middle, then nothing; keeps what it was given."""

    seen: ModelInput | None = None

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        self.seen = data
        yield np.full(len(encoding), 0.5)


class MiddleSearch(LearningSearch):
    def __init__(self, *args: Any, **settings: Any) -> None:
        self.model = Middle()
        super().__init__(self.model, *args, **settings)

    @property
    def seen(self) -> ModelInput | None:
        return self.model.seen


def middle(space: Any = SPACE, *, startup: int = 2, **settings: Any) -> MiddleSearch:
    options = {"metric": "loss", "mode": "min", "seed": 0, **settings}
    return MiddleSearch(space, **options, startup=startup)


def report(search: MiddleSearch, trial_id: str, loss: Any, epoch: int = 1) -> None:
    search.on_trial_result(trial_id, {"loss": loss, "training_iteration": epoch})


def seen(search: MiddleSearch) -> ModelInput:
    search.suggest("next")
    assert search.seen is not None
    return search.seen


def test_the_model_is_asked_once_enough_have_reported_and_pending_trials_do_not_count() -> None:
    search = middle()
    for trial_id in "abcd":
        search.suggest(trial_id)
    report(search, "a", 1.0)
    search.suggest("e")
    assert search.seen is None
    report(search, "b", 2.0)
    assert search.suggest("f") == {"x": 0.5}
    assert [search.origin(t) for t in "abcdef"] == [*["random"] * 5, "model"]
    search.suggest("g")  # the middle is known by now
    assert search.origin("g") == "random"


def test_the_start_spreads_over_the_space_and_depends_on_the_seed() -> None:
    firsts = {middle(seed=seed).suggest("0")["x"] for seed in range(3)}
    assert len(firsts) == 3
    search = middle(startup=99)
    eighths = {int(8 * search.suggest(str(i))["x"]) for i in range(8)}
    assert eighths == set(range(8))


def test_what_the_model_is_given() -> None:
    search = middle(startup=1)
    for trial_id in ("ended", "live", "failed", "nan", "pending", "lost", "partly"):
        search.suggest(trial_id)
    report(search, "ended", 3.0)
    search.on_trial_complete("ended", {"loss": 1.0, "training_iteration": 2})
    report(search, "live", 2.0)
    report(search, "failed", 5.0)
    search.on_trial_complete("failed", error=True)
    search.on_trial_complete("nan", {"loss": math.nan, "training_iteration": 1})
    search.on_trial_complete("lost")
    report(search, "partly", 4.0)
    search.on_trial_complete("partly")
    data = seen(search)
    assert data.curves == [{1: 3.0, 2: 1.0}, {1: 2.0}, {1: 4.0}]
    assert data.live_N.tolist() == [False, True, False]
    assert (len(data.u_ND), len(data.failed_ND), len(data.pending_PD)) == (3, 2, 1)
    assert data.loss_N.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert np.argsort(data.loss_N).tolist() == [1, 0, 2]


def test_a_report_after_the_end_changes_nothing() -> None:
    search = middle(startup=1)
    search.suggest("a")
    report(search, "a", 3.0)
    search.on_trial_complete("a", {"loss": 0.5, "training_iteration": 9})
    report(search, "a", 99.0, 10)
    search.on_trial_complete("a", error=True)
    assert seen(search).curves == [{1: 3.0, 9: 0.5}]


def test_a_config_that_came_to_nothing_may_come_again_and_others_not() -> None:
    search = middle({"x": "choice([1, 2])"})
    first, second = search.suggest("a"), search.suggest("b")
    search.on_trial_complete("a", error=True)
    search.on_trial_complete("b")
    assert first != second
    assert search.suggest("c") == second
    assert search.suggest("d") == Searcher.FINISHED


def test_a_trial_is_given_its_config_again_and_cannot_change_it() -> None:
    search = middle({"x": "uniform(0, 1)", "sizes": "choice([[1, 2]])"})
    config = search.suggest("a")
    config["sizes"].append(3)
    assert search.suggest("a")["sizes"] == [1, 2]


@pytest.mark.parametrize("huge", [10**400, -(10**400)])
def test_an_integer_that_no_float_can_hold_is_no_value(huge: int) -> None:
    search = middle(startup=1)
    for trial_id, loss in (("good", 1.0), ("huge", huge)):
        search.suggest(trial_id)
        report(search, trial_id, loss)
        search.on_trial_complete(trial_id, {"loss": loss, "training_iteration": 2})
    assert (seen(search).curves, len(seen(search).failed_ND)) == ([{1: 1.0, 2: 1.0}], 1)
    with pytest.raises(ValueError, match=r"x: must lie in uniform\(0, 1\)"):
        search.add_evaluated_point({"x": huge}, 1.0)


def test_sobol_points_are_spread_and_are_the_seeds_own() -> None:
    line = Encoding(parse_space(SPACE))
    eighths = {int(8 * sobol_point(line, 0, number)[0]) for number in range(8)}
    assert eighths == set(range(8))
    assert len({sobol_point(line, seed, 0)[0] for seed in range(3)}) == 3


def test_what_the_model_proposes_is_passed_over_where_it_is_forbidden() -> None:
    search = middle({"x": "choice([1, 2, 3])"}, startup=0, forbid=["x == 2"])
    assert sorted(search.suggest(trial_id)["x"] for trial_id in "ab") == [1, 3]
    assert {search.origin(trial_id) for trial_id in "ab"} == {"random"}
    assert search.suggest("c") == Searcher.FINISHED


def test_a_rare_config_of_a_large_space_is_found_or_the_rules_are_at_fault() -> None:
    encoding, rng = Encoding(parse_space({"x": "uniform(0, 1)"})), np.random.default_rng(0)
    found = draw_untried(encoding, Constraints(["x > 0.001"]), set(), rng)
    assert found is not None
    assert found["x"] <= 0.001
    with pytest.raises(SpecError, match="forbid: leaves nothing that 10000 random draws could"):
        draw_untried(encoding, Constraints(["x >= 0"]), set(), rng)


def test_the_last_configs_of_a_small_space_are_listed() -> None:
    encoding, rng = Encoding(parse_space({"n": "lograndint(1, 5000)"})), np.random.default_rng(0)
    tried = {config_key({"n": n}) for n in range(1, 4999)}
    assert draw_untried(encoding, Constraints(), tried, rng) == {"n": 4999}
    assert draw_untried(encoding, Constraints(["n == 4999"]), tried, rng) is None
