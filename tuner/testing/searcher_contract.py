"""The contract of searchers: a test inherits it and says how to make the searcher.

class TestMySearch(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        return MySearch(space, **{"metric": "loss", "mode": "min", **settings})
"""

from __future__ import annotations

import inspect
import json
import math
import multiprocessing
import pickle
import runpy
import sys
from multiprocessing.connection import Connection
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ray.tune.search import Searcher

from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space
from tuner.testing.spaces import spaces

SPACE = {
    "lr": "loguniform(1e-4, 1)",
    "batch_size": "choice([16, 32, 64])",
    "layers": "randint(1, 9)",
    "momentum": "quniform(0, 0.95, 0.1)",
    "kind": "choice(['a', 'b', 'c'])",
    "branch": "choice([{'name': 'sgd', 'nesterov': choice([True, False])}, "
    "{'name': 'adam', 'beta': uniform(0.8, 0.99), 'more': {'eps': loguniform(1e-9, 1e-3)}}])",
    "fixed": 3,
    "sizes": "choice([[3, 4], [5]])",
}
FINITE = {
    "a": "choice([1, 2, 3])",
    "b": "choice(['x', {'n': randint(0, 2)}])",
}
FEW = settings(  # each example is a search
    max_examples=max(1, settings().max_examples // 4),
    deadline=None,
    suppress_health_check=[HealthCheck.differing_executors],
)


def compute_loss(config: dict[str, Any]) -> float:
    """Smooth in lr, and different for every config."""
    log_lr = math.log10(config["lr"])
    return (log_lr + 2) ** 2 + 0.1 * float(config["layers"])


def is_plain(value: Any) -> bool:
    """Whether a value is built from Python's own types alone."""
    if isinstance(value, dict):
        return all(type(k) is str and is_plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return type(value) in (int, float, str, bool, type(None))


def run_trials(
    search: Searcher, first: int, count: int, loss: Any = compute_loss, epochs: int = 1
) -> list[dict[str, Any]]:
    """Run trials `first`, `first` + 1, ... one after another; their configs."""
    configs = []
    for number in range(first, first + count):
        trial_id = f"{number:05d}"
        config = search.suggest(trial_id)
        assert isinstance(config, dict), config
        configs.append(config)
        for epoch in range(1, epochs):
            search.on_trial_result(
                trial_id,
                {"loss": loss(config) + 1 / epoch, "training_iteration": epoch},
            )
        result = {
            "loss": loss(config),
            "training_iteration": epochs,
            "config": config,
        }
        search.on_trial_complete(trial_id, result)
    return configs


def _send_configs(end: Connection, file: str, name: str, path: list[str]) -> None:
    """Send what the test class `name` of `file` plays with one seed, as JSON."""
    sys.path[:] = path
    test = runpy.run_path(file)[name]()
    configs = run_trials(test.make(seed=7), 0, test.trials)
    end.send(json.dumps(configs))


class SearcherContract:
    """Inherit, define `make`, and every test below runs on your searcher."""

    trials = 16  # enough for a model to be asked

    def make(self, space: dict[str, Any] | None = SPACE, **settings: Any) -> Any:
        """A new searcher over `space`; settings: `seed`, and `forbid` as in a spec."""
        raise NotImplementedError

    def test_is_a_searcher(self) -> None:
        assert isinstance(self.make(seed=0), Searcher)

    def test_suggests_plain_values_of_the_space(self) -> None:
        encoding = Encoding(parse_space(SPACE))
        for config in run_trials(self.make(seed=0), 0, self.trials):
            assert is_plain(config), config
            encoding.encode(config)
            assert config["fixed"] == 3
            assert ("nesterov" in config["branch"]) == (
                config["branch"]["name"] == "sgd"
            )

    @FEW
    @given(spaces, st.integers(0, 9))
    def test_any_space(self, space: dict[str, Any], seed: int) -> None:
        search = self.make(space, seed=seed)
        encoding = Encoding(space)
        for number in range(self.trials):
            config = search.suggest(str(number))
            if config == Searcher.FINISHED:
                return
            encoding.encode(config)
            value = math.nan if number % 5 == 4 else float(number % 7)
            search.on_trial_complete(
                str(number), {"loss": value, "training_iteration": 1}
            )

    def test_same_seed_same_configs_in_another_process(self) -> None:
        # Of a server that has hashes of its own; once started, it forks further processes at once
        context = multiprocessing.get_context("forkserver")
        # So that it imports Ray once for all of them
        context.set_forkserver_preload([__name__])
        answer, end = context.Pipe(duplex=False)
        where = inspect.getfile(type(self)), type(self).__name__
        process = context.Process(
            target=_send_configs,
            args=(end, *where, sys.path),
        )
        process.start()
        end.close()
        configs = run_trials(self.make(seed=7), 0, self.trials)
        assert json.loads(answer.recv()) == configs
        process.join()
        assert run_trials(self.make(seed=8), 0, self.trials) != configs

    def test_survives_what_trials_report(self) -> None:
        search = self.make(seed=4)
        for number in range(self.trials):
            trial_id = str(number)
            search.suggest(trial_id)
            values = (
                math.nan,
                math.inf,
                None,
                "high",
                1e308,
                -1e308,
                10**400,
                0.5,
                0.5,
            )
            result = {"loss": values[number % len(values)], "training_iteration": 1}
            search.on_trial_result(trial_id, result)
            search.on_trial_result(trial_id, result)
            search.on_trial_result("unknown", result)
            search.on_trial_result(trial_id, {})
            search.on_trial_complete(trial_id, result)
            search.on_trial_complete(trial_id, result)
            search.on_trial_result(trial_id, result)
            search.on_trial_complete("unknown", result)
        run_trials(search, self.trials, 3)

    def test_many_at_a_time_are_all_different(self) -> None:
        search = self.make(seed=7)
        run_trials(search, 0, self.trials)
        live = [
            json.dumps(search.suggest(str(100 + i)), sort_keys=True) for i in range(16)
        ]
        assert len(set(live)) == 16

    def test_a_finite_space_is_given_out_once(self) -> None:
        search = self.make(FINITE, seed=8)
        configs = []
        for number in range(9):
            configs.append(search.suggest(str(number)))
            if number % 2:
                result = {"loss": float(number), "training_iteration": 1}
                search.on_trial_complete(str(number), result)
        assert len({json.dumps(config) for config in configs}) == 9
        assert search.suggest("9") == Searcher.FINISHED

    def test_forbidden_configs_are_not_tried(self) -> None:
        forbid = ("lr > 0.01 and batch_size < 64", "branch.beta > 0.9")
        search = self.make(seed=9, forbid=forbid)
        for config in run_trials(search, 0, self.trials + 10):
            assert not (config["lr"] > 0.01 and config["batch_size"] < 64)
            assert config["branch"].get("beta", 0) <= 0.9
        search = self.make(FINITE, seed=9, forbid=["a == 2", "b == 'x'"])
        suggested = [search.suggest(str(i)) for i in range(5)]
        assert suggested[4] == Searcher.FINISHED
        for config in suggested[:4]:
            assert config["a"] != 2
            assert config["b"] != "x"


class LearningSearcherContract(SearcherContract):
    """The further contract of searchers that learn from results.

    `make` also takes `metric`, `mode` and `points_to_evaluate`; by default "loss" and "min".
    """

    def test_learns(self) -> None:
        for sign, mode in ((1, "min"), (-1, "max")):
            search = self.make(seed=2, mode=mode)
            configs = run_trials(
                search, 0, 40, loss=lambda c, s=sign: s * compute_loss(c)
            )
            early = map(compute_loss, configs[:10])
            late = map(compute_loss, configs[25:])
            assert sum(early) / 10 > sum(late) / 15

    def test_goes_on_the_same_from_its_trials(self) -> None:
        original = self.make(seed=3, forbid=["layers == 8"])
        before = run_trials(original, 0, self.trials)
        pickled = pickle.loads(pickle.dumps(original))
        replayed = self.make(seed=3, forbid=["layers == 8"])
        for number, config in enumerate(before):
            replayed.take_trial(f"{number:05d}", config)
            result = {"loss": compute_loss(config), "training_iteration": 1}
            replayed.on_trial_complete(f"{number:05d}", result)
        after = run_trials(original, self.trials, 3)
        for copy in (pickled, replayed):
            assert run_trials(copy, self.trials, 3) == after

    def test_failed_trials_are_avoided(self) -> None:
        search = self.make({"x": "uniform(0, 1)"}, seed=5)
        tries = []
        for number in range(60):
            x = search.suggest(str(number))["x"]
            tries.append(x)
            bad = x > 0.5  # the best would lie there
            result = None if bad else {"loss": -x, "training_iteration": 1}
            search.on_trial_complete(str(number), result, error=bad)
        late = tries[30:]
        failures = sum(x > 0.5 for x in late)
        assert failures < 0.6 * len(late)

    def test_a_lost_trial_is_neither_waited_for_nor_held_against_its_config(
        self,
    ) -> None:
        search = self.make({"x": "choice([1, 2])"}, seed=6)
        first = search.suggest("a")
        _ = search.suggest("b")
        assert search.suggest("c") == Searcher.FINISHED
        search.on_trial_complete("a", None)
        assert search.suggest("d") == first

    def test_points_come_first_and_what_they_lack_is_drawn(self) -> None:
        adam = {"name": "adam", "beta": 0.85, "more": {"eps": 1e-8}}
        points = [
            {"lr": 0.01},
            {"branch": adam, "kind": "b", "lr": 0.1},
            {"branch": adam},
        ]
        search = self.make(seed=10, points_to_evaluate=points)
        first, second, third = run_trials(search, 0, 3)
        assert first["lr"] == 0.01
        assert second["branch"] == adam
        assert second["kind"] == "b"
        assert second["lr"] == 0.1
        assert third["branch"] == adam
        assert search.origin("00001") == "initial"
        for config in (first, second, third):
            Encoding(parse_space(SPACE)).encode(config)
        with pytest.raises(ValueError, match=r"points_to_evaluate\.0\.lr.*got 7"):
            self.make(points_to_evaluate=[{"lr": 7}])

    def test_takes_back_evaluated_points(self) -> None:
        configs = run_trials(self.make(seed=11), 0, self.trials)
        search = self.make(seed=12)
        search.add_evaluated_point(configs[0], math.nan, error=True)
        search.add_evaluated_point(
            configs[1], 3.0, pruned=True, intermediate_values=[5.0, 4.0]
        )
        for config in configs[2:]:
            search.add_evaluated_point(config, compute_loss(config))
        assert search.suggest("a") not in configs
        with pytest.raises(ValueError, match="lr"):
            search.add_evaluated_point({**configs[0], "lr": 50.0}, 1.0)

    def test_begins_with_a_portfolio(self) -> None:
        configs = run_trials(self.make(seed=13), 0, 3)
        search = self.make(seed=14, points_to_evaluate=[{"lr": 0.01}])
        search.queue_configs(configs)
        first, *others = run_trials(search, 0, 5)
        assert first["lr"] == 0.01
        assert others[:3] == configs
        assert others[3] not in configs
