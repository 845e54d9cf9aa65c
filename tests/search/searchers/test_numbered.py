"""What grid and random search share: configs by number, and nothing that is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from tuner.search.searchers._numbered import NumberedSearch
from tuner.spec.strategies import SEARCHERS

SPACE = {"lr": "loguniform(1e-4, 1)", "b": "choice([1, {'x': uniform(0, 1)}])", "k": 3}


def numbered(strategy: str, space: dict[str, object], **settings: Any) -> Searcher:
    settings |= {"space": space}
    searcher: Searcher = SEARCHERS.settings(strategy).model_validate(settings).build(0)
    return searcher


def test_forbidden_configs_are_left_out() -> None:
    grid = numbered("grid", {"a": "choice([1, 2, 3])"}, forbid=["a == 2"])
    assert [grid.suggest(str(i)) for i in range(3)] == [{"a": 1}, {"a": 3}, Searcher.FINISHED]
    finite = numbered("random", {"a": "choice([1, 2, 3])"}, forbid=["a == 2"])
    assert sorted(finite.suggest(str(i))["a"] for i in range(2)) == [1, 3]
    assert finite.suggest("2") == Searcher.FINISHED
    wide = numbered("random", SPACE, forbid=["lr > 0.01"])
    assert all(wide.suggest(str(i))["lr"] <= 0.01 for i in range(50))
    assert (grid.origin("0"), wide.origin("0")) == ("grid", "random")


def test_neither_reports_nor_rays_snapshots_change_what_is_suggested(tmp_path: Path) -> None:
    search = numbered("random", SPACE)
    config = search.suggest("00003")
    search.on_trial_complete("00003", {"loss": 1.0})
    search.save(str(tmp_path / "state"))
    search.restore(str(tmp_path / "state"))
    assert search.suggest("00003") == config
    assert search.seed_of("00003") is None


def test_trials_that_are_passed_over_are_not_counted() -> None:
    search = NumberedSearch("grid", lambda number: {"number": number}, seeds=(7, 8))
    assert search.suggest("00001") == {"number": 0}
    search.pass_over("00002")
    assert (search.suggest("00001"), search.seed_of("00001")) == ({"number": 0}, 8)
    assert (search.suggest("00003"), search.seed_of("00003")) == ({"number": 1}, 7)
    assert search.suggest("00005") == {"number": 2}
