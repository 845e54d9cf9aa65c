import json
from hashlib import sha256

from stories import search

from tuner.reporting.report import Report, format_utc


def test_report_has_the_numbers_of_the_search(snapshot, tmp_path):
    results = search(tmp_path / "x", 30)
    document = json.loads(json.dumps(Report(results).as_dict(), allow_nan=False))
    best = results.describe_best()
    assert {**document, **results.show(), "best": best} == document
    assert document["top"][0] == best
    assert document["trained_epochs"] == sum(
        t.last_epoch for t in results.trials.values()
    )
    snapshot("\n".join(document))
    for key in ("metric", "mode", "strategy", "importances", "confirmation"):
        snapshot.compare_value(document[key])
    snapshot.compare_value([trial["trial_id"] for trial in document["top"]])


def test_report_provenance_is_complete(tmp_path):
    results = search(tmp_path / "x", 3)
    provenance = Report(results).provenance
    assert provenance["experiment"] == results.document
    assert (
        provenance["started"]
        == format_utc(results.history.started)
        == "2023-11-14T22:13:21Z"
    )
    journal = (results.folder / "journal.jsonl").read_bytes()
    assert provenance["journal_sha256"] == sha256(journal).hexdigest()
    assert set(provenance["report_made_by"]) == {"tuner", "plotly"}
