"""The source of trials: numbers, limits, the translation of ids, and what a journal replays."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ray.tune.search import Searcher

from tuner.experiment.steered import Steered
from tuner.search.searchers._background import BackgroundSearch
from tuner.search.searchers._learning import LearningSearch
from tuner.search.searchers.bohb import BOHB
from tuner.search.trial_queue import TrialQueue, replay, trial_id_of
from tuner.search.tune_callbacks import TuneSearcher
from tuner.spec.sections import Objective
from tuner.spec.strategies import SEARCHERS, learning_strategies
from tuner.trial.context import Assignment

MODEL = BOHB(random_share=0.05, candidates=64)


class Strategy(Searcher):
    """Notes what it is recorded; answers None while it is `busy`."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = False
        self.calls: list[tuple[Any, ...]] = []

    def suggest(self, trial_id: str) -> Any:
        return None if self.busy else {"number": int(trial_id)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.calls.append(("result", trial_id, result))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        self.calls.append(("complete", trial_id, result, error))


class Source(TuneSearcher):
    """A queue, as Tune asks it for trials."""

    def __init__(self, strategy: Searcher, *, is_over: bool = False, **settings: Any) -> None:
        self.queue = TrialQueue(strategy, **settings)
        steering = SimpleNamespace(attend=lambda: None)
        driver: Any = SimpleNamespace(queue=self.queue, steering=steering, is_over=lambda: is_over)
        super().__init__(driver)


def test_trials_are_numbered_up_to_the_total() -> None:
    source = Source(Strategy(), total=3, limit=lambda: 9)
    given = [source.suggest(f"ray{i}") for i in range(4)]
    assert [g["trial_id"] for g in given[:3]] == ["00000", "00001", "00002"]
    assert given[1]["config"] == {"number": 1}
    assert given[3] is None
    for i in range(3):
        source.on_trial_complete(f"ray{i}", {"loss": 1.0})
    assert source.suggest("ray4") == Searcher.FINISHED


def test_at_most_the_limit_is_live() -> None:
    source = Source(Strategy(), total=None, limit=lambda: 2)
    assert source.suggest("a")
    assert source.suggest("b")
    assert source.suggest("c") is None
    source.on_trial_complete("a", {"loss": 1.0})
    assert source.suggest("c")["trial_id"] == "00002"


def test_a_strategy_that_has_nothing_yet_is_asked_for_the_same_number_again() -> None:
    strategy = Strategy()
    source = Source(strategy, total=None, limit=lambda: 9)
    strategy.busy = True
    assert all(source.suggest("a") is None for _ in range(5_000))  # Tune asks many times a second
    strategy.busy = False
    assert source.suggest("a")["trial_id"] == "00000"


def test_unfinished_trials_come_first_and_taken_numbers_not_again() -> None:
    unfinished = Assignment("00001", {"number": 1}, epoch=4)
    source = Source(
        Strategy(),
        total=4,
        limit=lambda: 9,
        taken=["00000", "00001", "00003"],
        unfinished=[unfinished],
    )
    first, second, end = (source.suggest(x) for x in "abc")
    assert (first["trial_id"], first["epoch"]) == ("00001", 4)
    assert second["trial_id"] == "00002"
    assert end is None


def test_the_strategy_hears_our_ids() -> None:
    strategy = Strategy()
    source = Source(strategy, total=None, limit=lambda: 9)
    for ray_id in "ab":
        source.suggest(ray_id)
    source.on_trial_result("b", {"loss": 1.0})
    source.on_trial_complete("a", {"loss": 2.0})
    assert strategy.calls == [
        ("result", "00001", {"loss": 1.0}),
        ("complete", "00000", {"loss": 2.0}, False),
    ]


def test_a_failure_is_told_when_it_is_settled() -> None:
    strategy = Strategy()
    source = Source(strategy, total=2, limit=lambda: 9)
    for ray_id in "ab":
        source.suggest(ray_id)
    source.on_trial_complete("a", {"tuner/failure/kind": "nan"})
    assert source.suggest("c") is None  # b is live: it may have to be tried again
    source.on_trial_complete("b", error=True)
    assert strategy.calls == []
    source.queue.give_up("00000", "nan")
    source.queue.retry(Assignment("00001", {"number": 1}, epoch=3))
    assert strategy.calls == [("complete", "00000", None, True)]
    assert source.suggest("c")["epoch"] == 3
    source.on_trial_complete("c", {"loss": 1.0})
    assert strategy.calls[1:] == [("complete", "00001", {"loss": 1.0}, False)]
    assert source.suggest("d") == Searcher.FINISHED


def test_a_lost_node_is_not_held_against_the_config() -> None:
    strategy = Strategy()
    source = Source(strategy, total=2, limit=lambda: 9)
    source.suggest("a")
    source.on_trial_complete("a", error=True)
    source.queue.give_up("00000", "node_lost")
    assert strategy.calls == [("complete", "00000", None, False)]


def test_a_strategy_at_its_end_is_not_the_end_while_a_trial_is_live() -> None:
    class Two(Strategy):
        def suggest(self, trial_id: str) -> Any:
            return {} if int(trial_id) < 2 else Searcher.FINISHED

    source = Source(Two(), total=None, limit=lambda: 9)
    assert all(source.suggest(ray_id) for ray_id in "ab")
    assert source.suggest("c") is None
    source.on_trial_complete("a", {"loss": 1.0})
    source.on_trial_complete("b", error=True)
    source.queue.retry(Assignment("00001", {}, epoch=1))
    assert source.suggest("c")["epoch"] == 1
    source.on_trial_complete("c", {"loss": 1.0})
    assert source.suggest("d") == Searcher.FINISHED


def test_ids_sort_in_order_of_creation() -> None:
    ids = [trial_id_of(n) for n in range(0, 100_000, 999)]
    assert ids == sorted(ids)


def test_a_trial_has_the_origin_and_the_seed_that_the_strategy_tells() -> None:
    class Telling(Strategy):
        def origin(self, trial_id: str) -> str:
            return f"origin of {trial_id}"

        def seed_of(self, trial_id: str) -> int:
            return 7

    recorded = Source(Telling(), total=1, limit=lambda: 1).suggest("a")
    assert (recorded["origin"], recorded["seed"]) == ("origin of 00000", 7)
    recorded = Source(Strategy(), total=1, limit=lambda: 1).suggest("a")
    assert (recorded["origin"], recorded["seed"]) == (None, None)


def test_while_no_trial_is_live_a_suggestion_is_waited_for() -> None:
    strategy = BackgroundSearch(
        LearningSearch(MODEL, {"x": "uniform(0, 1)"}, "loss", "min", seed=1, startup=2)
    )
    source = Source(strategy, total=6, limit=lambda: 2)
    for number in range(6):
        assert source.suggest(f"ray{number}")["trial_id"] == trial_id_of(number)
        source.on_trial_complete(f"ray{number}", {"loss": number, "training_iteration": 1})
    assert source.suggest("ray6") == Searcher.FINISHED


def test_while_one_is_live_nothing_is_waited_for() -> None:
    release = threading.Event()

    class Slow(LearningSearch):
        def suggest(self, trial_id: str) -> Any:
            if self.slow_for:
                release.wait(60)
            return super().suggest(trial_id)

        slow_for: ClassVar[list[str]] = []

    strategy = BackgroundSearch(Slow(MODEL, {"x": "uniform(0, 1)"}, "loss", "min", seed=1))
    source = Source(strategy, total=None, limit=lambda: 2)
    assert source.suggest("a")
    Slow.slow_for.append("a reason")
    assert source.suggest("b") is None  # and has not waited for the release
    release.set()
    strategy.settle()
    assert source.suggest("b")["trial_id"] == "00001"


def test_a_space_that_is_used_up_ends_what_waits() -> None:
    strategy = BackgroundSearch(
        LearningSearch(MODEL, {"x": "choice([1, 2])"}, "loss", "min", seed=1)
    )
    source = Source(strategy, total=None, limit=lambda: 1)
    for name in "ab":
        assert source.suggest(name)
        source.on_trial_complete(name, {"loss": 1.0, "training_iteration": 1})
    assert source.suggest("c") == Searcher.FINISHED


SPACE = {"lr": "loguniform(1e-4, 1)", "units": "randint(4, 64)", "kind": "choice(['a', 'b'])"}


def searcher(strategy: str) -> BackgroundSearch:
    settings = SEARCHERS.settings(strategy)(strategy=strategy, space=SPACE)
    found = settings.build(3, objective=Objective(metric="loss", mode="min"), max_t=3)
    assert isinstance(found, BackgroundSearch)
    return found


def suggestion(search: BackgroundSearch, trial_id: str) -> dict[str, Any]:
    while (config := search.suggest(trial_id)) is None:
        search.settle()
    return config


def run(
    search: BackgroundSearch, numbers: range, events: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One trial after the other: two reports, every fifth fails; what would be journaled."""
    configs = []
    for number in numbers:
        trial_id = f"{number:05}"
        config = suggestion(search, trial_id)
        configs.append(config)
        events.append({"event": "trial_started", "trial_id": trial_id, "config": config})
        for epoch in (1, 2):
            metrics = {"loss": abs(config["lr"] - 0.1) + config["units"] / 64 / epoch}
            recorded = {"event": "result", "trial_id": trial_id, "epoch": epoch, "metrics": metrics}
            events.append(recorded)
            result = {**metrics, "training_iteration": epoch}
            search.on_trial_result(trial_id, result)
        ended = {"event": "trial_ended", "trial_id": trial_id, "status": "stopped"}
        if number % 5 == 4:
            ended |= {"status": "failed", "error": {"kind": "nan", "message": "m"}}
            search.on_trial_complete(trial_id, None, error=True)
        else:
            search.on_trial_complete(trial_id, result)
        events.append(ended)
    return configs


@pytest.mark.parametrize("strategy", learning_strategies())
def test_it_goes_on_as_if_uninterrupted(strategy: str) -> None:
    events: list[dict[str, Any]] = [{"event": "experiment_started"}]
    whole = run(searcher(strategy), range(16), [])
    first = searcher(strategy)
    assert run(first, range(12), events) == whole[:12]
    second = searcher(strategy)
    replay(second, events)
    assert run(second, range(12, 16), []) == whole[12:]


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_from_a_trial_that_goes_on_after_its_end_is_learned(status: str) -> None:
    strategy = learning_strategies()[0]
    recorded, begun = searcher(strategy), searcher(strategy)
    events: list[dict[str, Any]] = []
    run(searcher(strategy), range(12), events)
    error = {"error": {"kind": "nan", "message": "m"}} if status == "failed" else {}
    events[-1] = {**events[-1], "status": status, **error}
    replay(recorded, events)
    replay(begun, events)
    unfinished = [Assignment("00011", events[-4]["config"], epoch=2)]
    source = Source(begun, total=12, limit=lambda: 4, taken=["00011"], unfinished=unfinished)
    source.suggest("ray's")
    source.on_trial_result("ray's", {"loss": 0.0, "training_iteration": 3})
    begun.settle()
    later = [
        {"event": "trial_started", "trial_id": "00011", "config": events[-4]["config"]},
        {"event": "result", "trial_id": "00011", "epoch": 3, "metrics": {"loss": 0.0}},
    ]
    again = searcher(strategy)
    replay(again, [*events, *later])
    own = again.search.observations.trials["00011"]
    assert again.search.observations.trials == begun.search.observations.trials
    assert (own.status, list(own.reports)) == ("running", [1, 2, 3])
    assert recorded.search.observations.trials["00011"].status != "running"


def test_an_end_after_a_trial_went_on_without_a_report_tells_of_its_config_as_before() -> None:
    strategy = learning_strategies()[0]
    search = searcher(strategy)
    events: list[dict[str, Any]] = []
    run(searcher(strategy), range(2), events)
    start, end = events[0], {**events[3], "status": "completed"}
    replay(search, [*events[:3], end, start, end])
    assert search.search.observations.trials["00000"].status == "ended"


def test_what_learns_nothing_is_told_nothing() -> None:
    for strategy in ("grid", "random"):
        settings = SEARCHERS.settings(strategy)(strategy=strategy, space=SPACE)
        search = settings.build(0)
        replay(search, [{"event": "trial_started", "trial_id": "0", "config": {}}])
        assert search.suggest("00000")


def test_a_strategy_hears_of_asked_configs_only_if_it_takes_them() -> None:
    class Taking(Strategy):
        def take_trial(self, trial_id: str, config: dict[str, Any]) -> None:
            self.calls.append(("take", trial_id, config))

    for strategy, heard in ((Strategy(), 0), (Taking(), 3)):
        steered = Steered(tries=[{"lr": 1}])
        source = Source(strategy, total=1, limit=lambda: 9, steered=steered)
        given = source.suggest("a")
        assert (given["trial_id"], given["config"], given["origin"]) == (
            "00000",
            {"lr": 1},
            "asked",
        )
        source.on_trial_result("a", {"loss": 1.0})
        source.on_trial_complete("a", {"loss": 1.0})
        assert len(strategy.calls) == heard
        assert source.suggest("b")["trial_id"] == "00001"


def test_a_number_that_a_kill_left_unused_stays_the_strategys() -> None:
    source = Source(
        Strategy(), total=4, limit=lambda: 9, taken=["00000", "00002"], steered=Steered(tries=[{}])
    )
    asked, own, last = (source.suggest(x) for x in "abc")
    assert [given["trial_id"] for given in (asked, own, last)] == ["00003", "00001", "00004"]
    assert source.suggest("d") is None


def test_the_end_of_a_trial_that_goes_on_later_is_none_for_the_strategy() -> None:
    strategy = Strategy()
    source = Source(strategy, total=1, limit=lambda: 9)
    source.suggest("a")
    source.queue.held.add("00000")
    source.on_trial_complete("a", {"loss": 1.0})
    source.queue.retry(Assignment("00000", {"number": 0}, epoch=1))
    assert strategy.calls == []
    source.suggest("b")
    source.on_trial_complete("b", {"loss": 0.5})
    assert strategy.calls == [("complete", "00000", {"loss": 0.5}, False)]


def test_where_nothing_runs_a_search_that_is_over_ends() -> None:
    source = Source(Strategy(), total=None, limit=lambda: 0, is_over=True)
    assert source.suggest("a") == Searcher.FINISHED


def test_a_strategy_that_learns_learns_from_an_asked_config() -> None:
    search = LearningSearch(MODEL, {"x": "uniform(0, 1)"}, "loss", "min", 1)
    strategy = BackgroundSearch(search)
    source = Source(strategy, total=2, limit=lambda: 9, steered=Steered(tries=[{"x": 0.25}]))
    assert source.suggest("a")["config"] == {"x": 0.25}
    source.on_trial_complete("a", {"loss": 0.5, "training_iteration": 1})
    assert source.suggest("b")["config"] != {"x": 0.25}
    strategy.settle()
    trials = search.observations.trials
    assert len(trials) == 2
    assert (trials["00000"].status, trials["00000"].reports) == ("ended", {1: 0.5})
