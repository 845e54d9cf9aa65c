import json
from hashlib import sha256

from stories import search

from tuner.reporting.report import Report, format_utc


def test_report_has_the_numbers_of_the_search(tmp_path):
    results = search(tmp_path / "x", 30)
    document = json.loads(json.dumps(Report(results).as_dict(), allow_nan=False))
    best = results.describe_best()
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
    assert provenance["started"] == format_utc(results.history.started) == "2023-11-14T22:13:21Z"
    journal = (results.folder / "journal.jsonl").read_bytes()
    assert provenance["journal_sha256"] == sha256(journal).hexdigest()
    assert set(provenance["report_made_by"]) == {"tuner", "plotly"}
