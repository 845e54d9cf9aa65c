import pytest
from stories import odd, search

from tuner.reporting.comparable import comparable
from tuner.reporting.importance import importances
from tuner.reporting.study import study_of


def importances_of(results):
    return importances(comparable(results, study_of(results)))


def test_what_decides_comes_first_and_spreads_are_around_the_shares(tmp_path):
    found = importances_of(search(tmp_path / "x", 60))
    assert found[0].name == "lr"
    assert sum(one.share for one in found) == pytest.approx(1)
    assert found[0].low > max(one.share for one in found[1:])
    for one in found:
        assert 0 <= one.low <= one.high <= 1


def test_the_same_trials_give_the_same_importances(tmp_path):
    results = search(tmp_path / "x", 20)
    assert importances_of(results) == importances_of(results)


def test_conditional_hyperparameters_have_one_too(tmp_path):
    found = importances_of(odd(tmp_path / "x", "conditional"))
    assert {one.name for one in found} == {"opt.name", "opt.lr"}


@pytest.mark.parametrize("kind", ["no_trial", "one_trial", "all_failed", "one_config"])
def test_too_few_trials_or_one_config_tell_nothing(tmp_path, kind):
    assert importances_of(odd(tmp_path / "x", kind)) == []
