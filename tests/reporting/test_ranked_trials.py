import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial
from stories import odd, search

from tuner.reporting.optuna_study import frozen_trials
from tuner.reporting.ranked_trials import (
    RankedTrials,
    escaped,
    fence_of,
    importances,
    leading,
    ranked_trials,
)
from tuner.spec.sections import Objective


def ranked(results):
    return ranked_trials(results, {t.user_attrs["trial_id"]: t for t in frozen_trials(results)})


def test_ranked_trials_are_ordered_by_best_value(tmp_path):
    results = search(tmp_path / "x", 12)
    found = ranked(results)
    ids = [trial.user_attrs["trial_id"] for trial in found.trials]
    assert ids == [trial.trial_id for trial in results.top()]
    assert len(ids) == 11
    assert {trial.state.name for trial in found.trials} == {"COMPLETE"}
    assert found.trials[0].value == max(trial.value for trial in found.trials)
    assert found.varying == ["lr", "momentum", "width"]
    assert (found.fence, found.outside) == (None, 0)


def test_ranked_trials_diverged_are_moved_to_the_fence(tmp_path):
    found = ranked(odd(tmp_path / "x", "diverged"))
    assert found.outside == 3
    assert max(trial.value for trial in found.trials) == found.fence
    assert found.fence < 10


def test_ranked_trials_escape_names_and_texts(tmp_path):
    found = ranked(odd(tmp_path / "x", "hostile"))
    (name,) = found.varying
    assert name.startswith("&lt;b&gt;bold&lt;b&gt;&lt;script&gt;")
    assert set(found.values_of(name)) == {"&lt;i&gt;", "&lt;/script&gt;"}


@pytest.mark.parametrize(
    ("values", "mode", "fence"),
    [
        ([1, 2, 3, 4, 5, 100], "min", 4.75 + 3 * 2.5),
        ([-100, 1, 2, 3, 4, 5], "max", 1.25 - 3 * 2.5),
        ([-100, 1, 2, 3, 4, 5], "min", None),
        ([1, 2, 3, 4, 5], "min", None),
        ([1, 100, 1000], "min", None),
    ],
)
def test_fence_of_values_is_tukeys_outer_fence(values, mode, fence):
    assert fence_of(values, Objective(mode=mode)) == fence


def test_escaped_replaces_tags_and_control_characters():
    assert escaped("<b>\x1b & 1") == "&lt;b&gt;  &amp; 1"


@given(st.lists(st.integers(), min_size=1, unique=True), st.integers(1, 20))
def test_leading_keeps_order_and_ends(items, most):
    kept = leading(items, most)
    assert len(kept) == min(most, len(items))
    assert kept == [item for item in items if item in kept]
    assert kept[0] == items[0]
    assert kept[: most // 2] == items[: most // 2]
    assert kept[-1] == items[-1] or most < 3


def importances_of(results):
    return importances(ranked(results))


def test_importances_put_the_decisive_one_first(tmp_path):
    found = importances_of(search(tmp_path / "x", 60))
    assert found[0].name == "lr"
    assert sum(one.share for one in found) == pytest.approx(1)
    assert found[0].low > max(one.share for one in found[1:])
    assert all(one.told_apart for one in found)
    for one in found:
        assert 0 <= one.low <= one.high <= 1


@pytest.mark.parametrize("count", [10, 20, 50])
def test_importances_of_noise_are_not_told_apart(count):
    chance, names = random.Random(count), "abcd"
    trials = [
        create_trial(
            params={name: chance.random() for name in names},
            distributions=dict.fromkeys(names, FloatDistribution(0, 1)),
            value=value,
        )
        for value in range(count)
    ]
    found = importances(RankedTrials(tuple(trials), Objective()))
    assert found[0].share > 0.4  # by chance alone: a quarter is its due
    assert not any(one.told_apart for one in found)


def test_importances_are_reproducible(tmp_path):
    results = search(tmp_path / "x", 20)
    assert importances_of(results) == importances_of(results)


@pytest.mark.parametrize("kind", ["no_trial", "one_trial", "all_failed", "one_config"])
def test_importances_of_too_few_trials_are_empty(tmp_path, kind):
    assert importances_of(odd(tmp_path / "x", kind)) == []
