"""Trials and reports as data frames, as files, and as HTML for a notebook."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from stories import odd, search
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.experiment.results.results import Results
from tuner.experiment.results.tables import reports_frame, summary_html, trials_frame, write_table
from tuner.experiment.trials import Report, TrialError, TrialRecord
from tuner.spec.sections import Objective

LOSS = Objective(metric="loss", mode="min")
SHOWN = 10  # trials in a notebook


def trial(config, *reports):
    results = [Report(e, float(e), metrics) for e, metrics in enumerate(reports, start=1)]
    return TrialRecord("00001", 0.0, config, "completed", results)


def test_lists_and_none_in_a_config_keep_their_place():
    frame = trials_frame([trial({"sizes": [1, 2], "norm": None})], LOSS)
    assert frame.loc[0, "config/sizes"] == [1, 2]
    assert "config/norm" in frame


def test_metrics_that_come_and_go_are_all_columns():
    bent = trial({}, {"loss": 1.0}, {"loss": 0.5, "acc": 0.1}, {"loss": 0.75})
    frame = trials_frame([bent], LOSS)
    assert (frame.loc[0, "last/acc"], frame.loc[0, "last/loss"]) == (0.1, 0.75)
    assert (frame.loc[0, "best/acc"], frame.loc[0, "best_epoch"]) == (0.1, 2)
    assert reports_frame([bent])["acc"].isna().tolist() == [True, False, True]


def test_the_seed_is_the_one_that_a_trial_trained_with():
    own = replace(trial({}), seed=7)
    frame = trials_frame([trial({}), own, trial({"seed": 9})], LOSS, seed=3)
    assert frame["seed"].tolist() == [3, 7, 9]


def test_parquet_gives_back_the_data_frame(tmp_path):
    results = search(tmp_path / "x", 12)
    path = write_table(results.dataframe(), tmp_path / "trials.parquet")
    back, frame = pd.read_parquet(path), results.dataframe()
    assert list(back.columns) == list(frame.columns)
    assert list(back["trial_id"]) == list(results.trials)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_csv_has_a_line_for_each_trial(tmp_path):
    results = search(tmp_path / "x", 12)
    path = write_table(results.dataframe(), tmp_path / "trials.CSV")
    back = pd.read_csv(path, dtype={"trial_id": str})
    assert list(back["trial_id"]) == list(results.trials)
    assert back["config/lr"].tolist() == results.dataframe()["config/lr"].tolist()
    assert back.loc[4, "error"] == "oom"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_lists_and_values_of_several_types_are_text(tmp_path, ending):
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending]
    lists = read(
        write_table(odd(tmp_path / "x", "categorical").dataframe(), tmp_path / f"x.{ending}")
    )
    assert set(lists["config/l"]) == {"[1]", "[2]"}
    assert set(lists["config/b"]) == {True, False}
    mixed = read(write_table(odd(tmp_path / "y", "foreign").dataframe(), tmp_path / f"y.{ending}"))
    assert [json.loads(text) for text in mixed["config/lr"][:3]] == [100, True, "q"]


@pytest.mark.parametrize("kind", ["no_trial", "no_report", "conditional", "running"])
def test_odd_experiments_have_a_table_too(tmp_path, kind):
    results = odd(tmp_path / "x", kind)
    for ending in ("csv", "parquet"):
        path = write_table(results.dataframe(), tmp_path / f"trials.{ending}")
        assert len({"csv": pd.read_csv, "parquet": pd.read_parquet}[ending](path)) == len(
            results.trials
        )


def test_another_ending_or_place_is_refused(tmp_path):
    results = odd(tmp_path / "x", "one_trial")
    with pytest.raises(UsageError, match=r"must end in \.parquet or \.csv, got 'trials.xls'"):
        write_table(results.dataframe(), "trials.xls")
    with pytest.raises(UsageError, match="cannot write"):
        write_table(results.dataframe(), tmp_path / "no" / "trials.csv")


@pytest.fixture
def writer(tmp_path):
    return Writer(make_folder(tmp_path / "digits"))


def cells(html):
    """The text of the cells of the table, row by row."""
    lines = [line.strip() for line in html.splitlines()]
    return [line[4:-5] for line in lines if line.startswith("<td>")]


def shown(folder):
    """What a notebook shows of the results, by IPython's protocol."""
    return Results(folder)._repr_html_()


def test_the_best_trials_stand_first(writer):
    writer.trial(1, [0.5, 0.25], config={"lr": 0.1, "norm": None})
    writer.trial(2, [0.75, 0.875], config={"lr": 0.03552123, "augment": {"shift": 2}})
    writer.trial(3, [], error=("nan", "m"))
    writer.end()
    html = shown(writer.folder)
    assert html.startswith(
        "<p><b>digits</b>: completed, 3 trials: 2 completed, 1 failed. Trial 00003: m</p>\n"
    )
    heads = ["trial", "status", "best val_accuracy", "epoch", "lr", "norm", "augment/shift"]
    assert [f"<th>{name}</th>" in html for name in heads] == [True] * len(heads)
    assert cells(html) == [
        *("00002", "completed", "0.875", "2", "0.03552", "", "2"),
        *("00001", "completed", "0.5", "1", "0.1", "", ""),
    ]
    assert "<p>The best 2; all: <code>dataframe()</code></p>" in html


def test_many_trials_are_cut(writer):
    for number in range(SHOWN + 5):
        writer.trial(number, [number / 100])
    writer.end()
    html = shown(writer.folder)
    assert html.count("<tr") == SHOWN + 1
    assert f"The best {SHOWN}; all:" in html


def test_without_a_usable_trial_there_is_no_table(writer):
    assert shown(writer.folder) == ("<p><b>digits</b>: running, 0 trials: none has started</p>")
    writer.trial(1, [], error=("nan", "m"))
    writer.end("failed")
    html = shown(writer.folder)
    assert html == "<p><b>digits</b>: failed, 1 trial: 1 failed. Trial 00001: m</p>"


def test_outside_of_a_notebook_results_say_what_they_are(writer):
    writer.trial(1, [0.5])
    writer.end()
    assert repr(Results(writer.folder)) == "<Results of digits: completed, 1 trial>"


def test_all_of_the_summary_is_escaped():
    frame = trials_frame([trial({"<i>": "<b>"}, {"loss": 0.5})], LOSS)
    html = summary_html("<u>", "<s>", frame, "loss", trials=1)
    assert html.startswith("<p><b>&lt;u&gt;</b>: &lt;s&gt;</p>\n")
    assert not any(tag in html for tag in ("<i>", "<u>", "<s>"))
    assert summary_html("x", "y", frame.iloc[:0], "loss", trials=1) == "<p><b>x</b>: y</p>"


HOSTILE = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=-0.5", "a\r=1"]


def test_a_csv_has_no_formulas_and_its_numbers_stay_numbers(tmp_path):
    configs = [{"a": text, "b": -0.5, "c": mixed} for text in HOSTILE for mixed in (-1, "-x")]
    trials = [replace(trial(config), trial_id=f"{n:05}") for n, config in enumerate(configs)]
    failed = replace(trial({"a": "-0.5"}), status="failed", error=TrialError("=1+1", "m"))
    frame = trials_frame([*trials, failed], LOSS)
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
