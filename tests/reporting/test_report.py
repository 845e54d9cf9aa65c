import json
from hashlib import sha256
from statistics import median

import pytest
from confirmed import retrained, searched
from stories import ODD, odd, search
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.reporting.report import Report, throughput_of, utc


def test_the_numbers_are_those_of_the_search(tmp_path):
    results = search(tmp_path / "x", 30)
    told = json.loads(json.dumps(Report(results).as_dict(), allow_nan=False))
    best = results.best_json()
    assert {**told, **results.show(), "best": best} == told
    assert told["top"][0] == best
    assert len(told["top"]) == 10
    assert (told["metric"], told["mode"], told["strategy"]) == ("val_accuracy", "max", "random")
    assert told["trained_epochs"] == sum(t.last_epoch for t in results.trials.values())
    assert told["scheduler"]["saved_epochs"] == 9 * results.counts["stopped"]
    assert {one["name"] for one in told["importances"]} == {"lr", "momentum", "width"}
    assert told["slots"]["slots"] == 1
    assert told["slots"]["busy_s"] + told["slots"]["idle_s"] == pytest.approx(told["wall_s"])
    peaks = [trial.results[0].metrics["peak_memory_mib"] for trial in results.trials.values()]
    spread = {"least": 416, "median": median(peaks), "greatest": 432}
    assert told["peak_memory_mib"] == spread
    assert told["throughput"]["unit"] == "images a second"
    assert told["confirmation"] is None


def test_failures_are_told_by_kind(tmp_path):
    report = Report(search(tmp_path / "x", 6))
    assert report.failures == [
        {
            "kind": "oom",
            "count": 1,
            "first": {"trial_id": "00004", "after_epoch": 2, "message": "out of memory"},
            "trial_ids": ["00004"],
        }
    ]


def test_provenance_is_all_that_is_known(tmp_path):
    results = search(tmp_path / "x", 3)
    told = Report(results).provenance
    assert told["experiment"] == results.document
    assert told["started"] == utc(results.history.started) == "2023-11-14T22:13:21Z"
    journal = (results.folder / "journal.jsonl").read_bytes()
    assert told["journal_sha256"] == sha256(journal).hexdigest()
    assert set(told["report_made_by"]) == {"tuner", "optuna", "plotly"}


def test_once_confirmed_the_confirmed_leader_is_the_best(tmp_path):
    results = searched(tmp_path / "x", {0.1: 0.9, 0.2: 0.8})
    retrained(results, [[0.5, 0.5], [0.7, 0.7]])
    told = Report(Results(results.folder)).as_dict()
    assert told["best"]["shown"] == "confirmed"
    assert told["best"]["trial_id"] == "00001"
    assert told["confirmation"]["chosen"] == "00001"


@pytest.mark.parametrize("kind", ODD)
def test_odd_experiments_have_numbers_too(tmp_path, kind):
    told = json.loads(json.dumps(Report(odd(tmp_path / "x", kind)).as_dict(), allow_nan=False))
    assert (told["best"] is None) == (kind in ("no_trial", "no_report", "all_failed"))


def test_why_there_is_no_best_is_told(tmp_path):
    report = Report(odd(tmp_path / "x", "all_failed"))
    assert report.best == []
    assert report.why_no_best.startswith("x has no usable trial: 3 failed (nan). Trial 00000: <b>")
    assert Report(search(tmp_path / "y", 3)).why_no_best == ""


def test_images_a_second_where_they_are_reported(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [{"images_per_s": v, "peak_memory_mib": 10 * v} for v in (1.0, 5.0, 3.0)])
    writer.trial(1, [{"images_per_s": 9.0}])
    writer.trial(2, [0.5])
    writer.end()
    trials = Results(writer.folder).trials.values()
    found = throughput_of(trials)
    assert (found.rates, found.unit) == ({"00000": 3, "00001": 9}, "images a second")
    assert Report(Results(writer.folder)).peaks_mib == {"00000": 50}


def test_else_epochs_a_minute(tmp_path):
    report = Report(odd(tmp_path / "x", "one_trial"))  # two epochs in three seconds
    found = report.throughput
    assert (found.rates, found.unit) == ({"00000": 40}, "epochs a minute")
    assert report.peaks_mib == {}


def test_without_an_epoch_there_is_none(tmp_path):
    assert throughput_of(odd(tmp_path / "x", "no_report").trials.values()) is None
    assert throughput_of(search(tmp_path / "y", 0).trials.values()) is None
