"""Trials and reports as data frames and as files."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from stories import odd, search

from tuner.errors import UsageError
from tuner.experiment.results.tables import (
    build_reports_frame,
    build_trials_frame,
    write_table,
)
from tuner.experiment.trials import Report, TrialError, TrialRecord
from tuner.spec.sections import Objective

LOSS = Objective(metric="loss", mode="min")


def trial(config, *reports):
    results = [
        Report(e, float(e), metrics) for e, metrics in enumerate(reports, start=1)
    ]
    return TrialRecord("00001", 0.0, config, "completed", results)


def test_frames_have_all_metrics_and_seeds(snapshot):
    bent = trial({}, {"loss": 1.0}, {"loss": 0.5, "acc": 0.1}, {"loss": 0.75})
    snapshot(build_trials_frame([bent], LOSS).to_csv())
    snapshot(build_reports_frame([bent]).to_csv())
    seeded = replace(trial({}), seed=7)
    frame = build_trials_frame([trial({}), seeded, trial({"seed": 9})], LOSS, seed=3)
    assert frame["seed"].tolist() == [3, 7, 9]


def test_whole_numbers_stay_so_and_none_is_a_value(snapshot, tmp_path):
    configs = [
        {"n": 3, "x": 0.5, "s": None},
        {"n": 2**40, "s": "cosine"},
        {"x": 1, "s": "step"},
    ]
    frame = build_trials_frame([trial(config) for config in configs], LOSS)
    snapshot.compare_value({name: frame[f"config/{name}"].tolist() for name in "nxs"})
    snapshot(write_table(frame, tmp_path / "t.csv").read_text())


def test_write_table_parquet_round_trips(tmp_path):
    results = search(tmp_path / "x", 12)
    path = write_table(results.dataframe(), tmp_path / "trials.parquet")
    back = pd.read_parquet(path)
    frame = results.dataframe()
    assert list(back.columns) == list(frame.columns)
    assert list(back["trial_id"]) == list(results.trials)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


@pytest.mark.parametrize(
    ("ending", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)]
)
def test_write_table_mixed_values_are_text(tmp_path, ending, read):
    def write_and_read(kind):
        frame = odd(tmp_path / kind, kind).dataframe()
        return read(write_table(frame, tmp_path / f"{kind}.{ending}"))

    lists = write_and_read("categorical")
    assert set(lists["config/l"]) == {"[1]", "[2]"}
    assert set(lists["config/b"]) == {True, False}
    mixed = write_and_read("foreign")
    assert [json.loads(text) for text in mixed["config/lr"][:3]] == [100, True, "q"]


def test_write_table_invalid_path_is_refused(snapshot, tmp_path):
    results = odd(tmp_path / "x", "one_trial")
    with snapshot.raises(UsageError):
        write_table(results.dataframe(), "trials.xls")
    with snapshot.raises(UsageError):
        write_table(results.dataframe(), tmp_path / "no/trials.csv")


HOSTILE = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "=-0.5",
    "a\r=1",
]


def test_write_table_csv_disarms_formulas(snapshot, tmp_path):
    configs = [
        {"a": text, "b": -0.5, "c": mixed} for text in HOSTILE for mixed in (-1, "-x")
    ]
    trials = [
        replace(trial(config), trial_id=f"{n:05}") for n, config in enumerate(configs)
    ]
    failed = replace(
        trial({"a": "-0.5"}), status="failed", error=TrialError("=1+1", "m")
    )
    frame = build_trials_frame([*trials, failed], LOSS)
    snapshot.compare_value(
        write_table(frame, tmp_path / "x.csv").read_text().splitlines()
    )
    exact = pd.read_parquet(write_table(frame, tmp_path / "x.parquet"))
    assert exact["config/a"].tolist()[:-1] == [text for text in HOSTILE for _ in "12"]
    assert exact["error"].tolist()[-1] == "=1+1"
