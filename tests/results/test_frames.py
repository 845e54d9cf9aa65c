from dataclasses import replace

from tuner.record.history import Report, TrialRecord
from tuner.results.frames import flat, reports_frame, trials_frame


def trial(config, *reports):
    told = tuple(Report(e, float(e), metrics) for e, metrics in enumerate(reports, start=1))
    return TrialRecord("00001", config, "completed", told, (), None, 0.0, None, ())


def test_nested_configs_are_flattened():
    assert flat({"a": {"b": {"c": 1}}, "d": [1, 2]}) == {"a/b/c": 1, "d": [1, 2]}


def test_lists_and_none_in_a_config_keep_their_place():
    frame = trials_frame([trial({"sizes": [1, 2], "norm": None})], metric="loss", mode="min")
    assert frame.loc[0, "config/sizes"] == [1, 2]
    assert "config/norm" in frame


def test_metrics_that_come_and_go_are_all_columns():
    told = trial({}, {"loss": 1.0}, {"loss": 0.5, "acc": 0.1}, {"loss": 0.75})
    frame = trials_frame([told], metric="loss", mode="min")
    assert (frame.loc[0, "last/acc"], frame.loc[0, "last/loss"]) == (0.1, 0.75)
    assert (frame.loc[0, "best/acc"], frame.loc[0, "best_epoch"]) == (0.1, 2)
    assert reports_frame([told])["acc"].isna().tolist() == [True, False, True]


def test_the_seed_is_the_one_that_a_trial_trained_with():
    own = replace(trial({}), seed=7)
    frame = trials_frame([trial({}), own, trial({"seed": 9})], metric="loss", mode="min", seed=3)
    assert frame["seed"].tolist() == [3, 7, 9]
