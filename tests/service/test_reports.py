"""The reports that the page shows."""

from stories import search

from tuner.reporting import html
from tuner.service import reports
from tuner.service.reports import Reports


def test_a_report_is_made_once_until_the_journal_changes(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(html, "report_page", lambda report: made.append(report) or f"{len(made)}")
    folder = search(tmp_path / "x", 3).folder
    pages = Reports()
    assert [pages.page(folder), pages.page(folder)] == ["1", "1"]
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"event": "unknown", "time": 1700000000.0}\n')
    assert pages.page(folder) == "2"


def test_the_last_ones_are_kept(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(html, "report_page", lambda report: made.append(1) or report.results.name)
    monkeypatch.setattr(reports, "_MOST_KEPT", 1)
    pages = Reports()
    folders = [search(tmp_path / name, 3).folder for name in "ab"]
    first, last = folders
    shown = [pages.page(folder) for folder in (first, last, last, first)]
    assert (shown, len(made)) == (["a", "b", "b", "a"], 3)
