"""Grid search: every cell, or every given config, with every seed."""

from __future__ import annotations

from typing import Any

from ray.tune.search import Searcher

from tuner.spec.strategies import GridSettings


def grid_search(space: dict[str, object], **settings: Any) -> Searcher:
    return GridSettings(space=space, **settings).build(0)


def test_grid_gives_every_cell_then_ends() -> None:
    search = grid_search({"a": "uniform(0, 1)", "b": "choice([1, 2])"}, points=2)
    cells = [search.suggest(str(i)) for i in range(5)]
    assert cells == [
        {"a": 0.0, "b": 1},
        {"a": 0.0, "b": 2},
        {"a": 1.0, "b": 1},
        {"a": 1.0, "b": 2},
        Searcher.FINISHED,
    ]


def test_a_grid_gives_every_config_with_every_seed() -> None:
    space = {"a": "uniform(0, 1)", "b": "choice([1, 2])"}
    configs = [{"a": 0.5, "b": 1}, {"a": 0.9, "b": 2}, {"a": 0.25, "b": 2}]
    search = grid_search(space, configs=configs, seeds=[7, 8], forbid=["a > 0.8"])
    given = [(search.suggest(str(i)), search.seed_of(str(i))) for i in range(4)]
    assert given == [(configs[0], 7), (configs[0], 8), (configs[2], 7), (configs[2], 8)]
    assert search.suggest("4") == Searcher.FINISHED
    assert grid_search(space).seed_of("3") is None
