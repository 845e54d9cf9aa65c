import json
import random
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial
from stories import odd, search

from tuner.reporting.optuna_study import frozen_trials
from tuner.reporting.report import (
    RankedTrials,
    Report,
    fence_of,
    importances,
    leading,
    ranked_trials,
    utc,
)
from tuner.spec.sections import Objective


def test_report_has_the_numbers_of_the_search(tmp_path):
    results = search(tmp_path / "x", 30)
    document = json.loads(json.dumps(Report(results).as_dict(), allow_nan=False))
    best = results.best_json()
    assert {**document, **results.show(), "best": best} == document
    assert document["top"][0] == best
    assert len(document["top"]) == 10
    shown = [document[key] for key in ("metric", "mode", "strategy")]
    assert shown == ["val_accuracy", "max", "random"]
    assert document["trained_epochs"] == sum(t.last_epoch for t in results.trials.values())
    names = {importance["name"] for importance in document["importances"]}
    assert names == {"lr", "momentum", "width"}
    assert document["confirmation"] is None


def test_report_groups_failures_by_kind(tmp_path):
    report = Report(search(tmp_path / "x", 6))
    assert report.failures == [
        {
            "kind": "oom",
            "count": 1,
            "first": {"trial_id": "00004", "after_epoch": 2, "message": "out of memory"},
            "trial_ids": ["00004"],
        }
    ]


def test_report_provenance_is_complete(tmp_path):
    results = search(tmp_path / "x", 3)
    provenance = Report(results).provenance
    assert provenance["experiment"] == results.document
    assert provenance["started"] == utc(results.history.started) == "2023-11-14T22:13:21Z"
    journal = (results.folder / "journal.jsonl").read_bytes()
    assert provenance["journal_sha256"] == sha256(journal).hexdigest()
    assert set(provenance["report_made_by"]) == {"tuner", "optuna", "plotly"}


def test_rungs_leave_out_trials_that_a_user_stopped(writer):
    writer.trial(0, [0.5], end=None)
    writer.add("trial_ended", trial_id="00000", status="stopped", control="1")
    writer.end()
    report = Report(writer.results)
    assert (report.stopped, report.rungs[0].stopped) == ([], 0)


def ranked(results):
    return ranked_trials(results, {t.user_attrs["trial_id"]: t for t in frozen_trials(results)})


def test_ranked_trials_are_fenced_and_escaped(tmp_path):
    trials = ranked(odd(tmp_path / "x", "diverged"))
    assert trials.outside == 3
    assert max(trial.value for trial in trials.trials) == trials.fence
    assert trials.fence < 10
    trials = ranked(odd(tmp_path / "y", "hostile"))
    (name,) = trials.varying
    assert name.startswith("&lt;b&gt;bold&lt;b&gt;&lt;script&gt;")
    assert set(trials.values_of(name)) == {"&lt;i&gt;", "&lt;/script&gt;"}


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


def test_importances_rank_decisive_hyperparameter_first(tmp_path):
    ranking = importances_of(search(tmp_path / "x", 60))
    assert ranking[0].name == "lr"
    assert sum(importance.share for importance in ranking) == pytest.approx(1)
    assert ranking[0].low > max(importance.share for importance in ranking[1:])
    assert all(importance.told_apart for importance in ranking)
    for importance in ranking:
        assert 0 <= importance.low <= importance.high <= 1


@pytest.mark.parametrize("count", [10, 20, 50])
def test_importances_of_noise_are_not_significant(count):
    chance, names = random.Random(count), "abcd"
    trials = [
        create_trial(
            params={name: chance.random() for name in names},
            distributions=dict.fromkeys(names, FloatDistribution(0, 1)),
            value=value,
        )
        for value in range(count)
    ]
    ranking = importances(RankedTrials(tuple(trials), Objective()))
    assert ranking[0].share > 0.4  # by chance alone: a quarter is its due
    assert not any(importance.told_apart for importance in ranking)


def test_importances_are_reproducible(tmp_path):
    results = search(tmp_path / "x", 20)
    assert importances_of(results) == importances_of(results)
