"""Trials and reports as data frames and as files."""

import csv
import json
from dataclasses import replace

import pandas as pd
import pytest
from stories import odd, search

from tuner.errors import UsageError
from tuner.experiment.results.tables import build_reports_frame, build_trials_frame, write_table
from tuner.experiment.trials import Report, TrialError, TrialRecord
from tuner.spec.sections import Objective

LOSS = Objective(metric="loss", mode="min")


def trial(config, *reports):
    results = [Report(e, float(e), metrics) for e, metrics in enumerate(reports, start=1)]
    return TrialRecord("00001", 0.0, config, "completed", results)


def test_frames_have_all_metrics_and_seeds():
    bent = trial({}, {"loss": 1.0}, {"loss": 0.5, "acc": 0.1}, {"loss": 0.75})
    frame = build_trials_frame([bent], LOSS)
    assert (frame.loc[0, "last/acc"], frame.loc[0, "last/loss"]) == (0.1, 0.75)
    assert (frame.loc[0, "best/acc"], frame.loc[0, "best_epoch"]) == (0.1, 2)
    assert build_reports_frame([bent])["acc"].isna().tolist() == [True, False, True]
    seeded = replace(trial({}), seed=7)
    frame = build_trials_frame([trial({}), seeded, trial({"seed": 9})], LOSS, seed=3)
    assert frame["seed"].tolist() == [3, 7, 9]


def test_whole_numbers_stay_so_and_none_is_a_value(tmp_path):
    configs = [{"n": 3, "x": 0.5, "s": None}, {"n": 2**40, "s": "cosine"}, {"x": 1, "s": "step"}]
    frame = build_trials_frame([trial(config) for config in configs], LOSS)
    assert frame["config/n"].tolist() == [3, 2**40, pd.NA]
    assert frame["config/x"].tolist() == [0.5, pd.NA, 1.0]
    assert frame["config/s"].tolist() == [None, "cosine", "step"]
    rows = list(csv.DictReader(write_table(frame, tmp_path / "t.csv").open()))
    assert [row["config/n"] for row in rows] == ["3", str(2**40), ""]
    assert [row["config/s"] for row in rows] == ["null", '"cosine"', '"step"']


def test_write_table_parquet_round_trips(tmp_path):
    results = search(tmp_path / "x", 12)
    path = write_table(results.dataframe(), tmp_path / "trials.parquet")
    back = pd.read_parquet(path)
    frame = results.dataframe()
    assert list(back.columns) == list(frame.columns)
    assert list(back["trial_id"]) == list(results.trials)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_write_table_mixed_values_are_text(tmp_path, ending):
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending]
    lists = read(
        write_table(odd(tmp_path / "x", "categorical").dataframe(), tmp_path / f"x.{ending}")
    )
    assert set(lists["config/l"]) == {"[1]", "[2]"}
    assert set(lists["config/b"]) == {True, False}
    mixed = read(write_table(odd(tmp_path / "y", "foreign").dataframe(), tmp_path / f"y.{ending}"))
    assert [json.loads(text) for text in mixed["config/lr"][:3]] == [100, True, "q"]


def test_write_table_invalid_path_is_refused(snapshot, tmp_path):
    results = odd(tmp_path / "x", "one_trial")
    with snapshot.raises(UsageError):
        write_table(results.dataframe(), "trials.xls")
    with snapshot.raises(UsageError):
        write_table(results.dataframe(), tmp_path / "no/trials.csv")


HOSTILE = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=-0.5", "a\r=1"]


def test_write_table_csv_disarms_formulas(tmp_path):
    configs = [{"a": text, "b": -0.5, "c": mixed} for text in HOSTILE for mixed in (-1, "-x")]
    trials = [replace(trial(config), trial_id=f"{n:05}") for n, config in enumerate(configs)]
    failed = replace(trial({"a": "-0.5"}), status="failed", error=TrialError("=1+1", "m"))
    frame = build_trials_frame([*trials, failed], LOSS)
    write_table(frame, tmp_path / "x.csv")
    back = pd.read_csv(tmp_path / "x.csv", dtype={"config/a": str})
    harmless = [f"'{text}".replace("\r", "\n") for text in HOSTILE[:-1]] + ["a\n=1"]
    assert back["config/a"].tolist() == [*(text for text in harmless for _ in "12"), "-0.5"]
    assert back["config/b"].tolist()[:-1] == [-0.5] * len(trials)
    assert back["error"].tolist()[-1] == "'=1+1"
    assert back["config/c"].tolist()[:2] == ["-1", '"-x"']
    whole = pd.read_parquet(write_table(frame, tmp_path / "x.parquet"))
    assert whole["config/a"].tolist()[:-1] == [text for text in HOSTILE for _ in "12"]
    assert frame["error"].tolist()[-1] == "=1+1"
