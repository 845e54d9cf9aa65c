import json

import pandas as pd
import pytest
from stories import odd, search

from tuner.errors import UsageError
from tuner.results.trials_table import write_trials


def test_parquet_gives_back_the_data_frame(tmp_path):
    results = search(tmp_path / "x", 12)
    path = write_trials(results, tmp_path / "trials.parquet")
    back, frame = pd.read_parquet(path), results.dataframe()
    assert list(back.columns) == list(frame.columns)
    assert list(back["trial_id"]) == list(results.trials)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_csv_has_a_line_for_each_trial(tmp_path):
    results = search(tmp_path / "x", 12)
    path = write_trials(results, tmp_path / "trials.CSV")
    back = pd.read_csv(path, dtype={"trial_id": str})
    assert list(back["trial_id"]) == list(results.trials)
    assert back["config/lr"].tolist() == results.dataframe()["config/lr"].tolist()
    assert back.loc[4, "error"] == "oom"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_lists_and_values_of_several_types_are_text(tmp_path, ending):
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending]
    lists = read(write_trials(odd(tmp_path / "x", "categorical"), tmp_path / f"x.{ending}"))
    assert set(lists["config/l"]) == {"[1]", "[2]"}
    assert set(lists["config/b"]) == {True, False}
    mixed = read(write_trials(odd(tmp_path / "y", "foreign"), tmp_path / f"y.{ending}"))
    assert [json.loads(text) for text in mixed["config/lr"][:3]] == [100, True, "q"]


@pytest.mark.parametrize("kind", ["no_trial", "no_report", "conditional", "running"])
def test_odd_experiments_have_a_table_too(tmp_path, kind):
    results = odd(tmp_path / "x", kind)
    for ending in ("csv", "parquet"):
        path = write_trials(results, tmp_path / f"trials.{ending}")
        assert len({"csv": pd.read_csv, "parquet": pd.read_parquet}[ending](path)) == len(
            results.trials
        )


def test_another_ending_or_place_is_refused(tmp_path):
    results = odd(tmp_path / "x", "one_trial")
    with pytest.raises(UsageError, match=r"must end in \.parquet or \.csv, got 'trials.xls'"):
        write_trials(results, "trials.xls")
    with pytest.raises(UsageError, match="cannot write"):
        write_trials(results, tmp_path / "no" / "trials.csv")
