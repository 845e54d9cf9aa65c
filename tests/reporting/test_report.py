import json
from hashlib import sha256

from stories import search
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.reporting.report import Report, RungCount, utc


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


def test_rungs_count_the_trials_that_reached_them_and_stopped_there(tmp_path):
    trials = [(1, "stopped"), (2, "stopped"), (10, "completed"), (1, "failed"), (1, "stopped")]
    writer = Writer(make_folder(tmp_path / "x"))
    for number, (epochs, end) in enumerate(trials):
        error = ("nan", "m") if end == "failed" else None
        writer.trial(number, [0.5] * epochs, end=end, error=error)
    writer.end()
    rungs = Report(Results(writer.folder)).rungs
    assert rungs == [RungCount(1, 5, 2), RungCount(2, 2, 1), RungCount(4, 1, 0), RungCount(8, 1, 0)]


def test_rungs_leave_out_trials_that_a_user_stopped(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    writer.add("trial_ended", trial_id="00000", status="stopped", control="1")
    writer.end()
    report = Report(Results(writer.folder))
    assert (report.stopped, report.rungs[0].stopped) == ([], 0)
