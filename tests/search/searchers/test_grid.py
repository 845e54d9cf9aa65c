"""Grid search: every cell, or every given config, with every seed."""

from ray.tune.search import Searcher

from tuner.spec.strategies import GridSettings


def grid_search(space, **settings):
    return GridSettings(space=space, **settings).build(0)


def test_grid_in_spread_order_begins_with_the_through_config():
    space = dict.fromkeys("abcd", "uniform(0, 1)")
    best = dict.fromkeys("abcd", 0.4)
    search = grid_search(
        space, order="spread", through=best, forbid=["a == 0 and b == 0"]
    )
    first, *others = [search.suggest(str(i)) for i in range(6)]
    assert first == best
    assert all({config[name] for config in others} == {0, 0.4, 1} for name in "abcd")
    rest = [search.suggest(str(i)) for i in range(6, 73)]
    assert len({tuple(c.values()) for c in [first, *others, *rest[:-1]]}) == 81 - 9
    assert rest[-1] == Searcher.FINISHED


def test_grid_gives_every_config_with_every_seed():
    space = {"a": "uniform(0, 1)", "b": "choice([1, 2])"}
    configs = [{"a": 0.5, "b": 1}, {"a": 0.9, "b": 2}, {"a": 0.25, "b": 2}]
    search = grid_search(space, configs=configs, seeds=[7, 8], forbid=["a > 0.8"])
    given = [(search.suggest(str(i)), search.seed_of(str(i))) for i in range(4)]
    assert given == [(configs[0], 7), (configs[0], 8), (configs[2], 7), (configs[2], 8)]
    assert search.suggest("4") == Searcher.FINISHED
    assert search.origin("0") == "grid"
    assert grid_search(space).seed_of("3") is None
