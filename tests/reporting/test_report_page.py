import re

import pytest
from confirmed import retrained, searched
from stories import ODD, TAGS, odd, search

from tuner.reporting import page as pages
from tuner.reporting.report import Report
from tuner.reporting.report_page import best_table, report_page, tiles
from tuner.results.results import Results

SECTIONS = ["best", "hyperparameters", "stopping", "machine", "failures", "confirmed", "provenance"]


@pytest.fixture(autouse=True)
def _without_plotly_js(monkeypatch):
    """Five megabytes that no test here reads."""
    monkeypatch.setattr(pages, "get_plotlyjs", lambda: "")


def figures(page):
    return re.findall(r'<figure id="([^"]+)"', page)


def test_every_figure_has_its_place_and_its_data(tmp_path):
    page = report_page(Report(search(tmp_path / "x", 40)))
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    assert figures(page) == [
        *("history", "importance", "parallel", "slice-0", "slice-1", "slice-2"),
        *("contour-0", "contour-1", "contour-2", "curves", "rungs", "saved"),
        *("slots", "memory", "throughput", "confirmation"),
    ]
    drawn = [name for name in figures(page) if name != "confirmation"]
    assert re.findall(r'data-figure="([^"]+)"', page) == drawn
    assert len(re.findall('<script type="application/json">', page)) == len(drawn)
    assert "out of memory" in page
    assert "loguniform(0.001, 1)" in page


def test_the_summary_is_a_few_numbers(tmp_path):
    shown = {
        tile.label: (tile.value, tile.note) for tile in tiles(Report(search(tmp_path / "x", 12)))
    }
    assert shown["trials"] == ("12", "4 completed, 7 stopped, 1 failed")
    assert shown["epochs trained"] == ("49", "63 more saved by early stopping, 56% of all")
    assert shown["slots busy"][1] == "1 slot side by side"


def test_the_best_trials_have_a_column_for_each_hyperparameter(tmp_path):
    table = best_table(Report(odd(tmp_path / "x", "conditional")))
    assert table.head[:3] == ["trial", "val_accuracy", "epoch"]
    assert sorted(table.head[3:]) == ["opt", "opt.lr", "opt.name"]
    assert len(table.rows) == 10
    assert {len(row) for row in table.rows} == {6}
    cells = {row[table.head.index("opt")] for row in table.rows}
    assert cells == {"None", ""}


def test_a_confirmed_mean_stands_beside_what_was_searched(tmp_path):
    results = searched(tmp_path / "x", {0.1: 0.9, 0.2: 0.8})
    retrained(results, [[0.5, 0.6], [0.7, 0.8]])
    report = Report(Results(results.folder))
    table = best_table(report)
    assert table.head[2] == "confirmed mean"
    assert table.rows[0][:4] == ["00001", "0.8", "0.75 +- 0.05", "2"]
    tile = next(tiles(report))
    note = "trial 00001, epoch 2; confirmed mean 0.75 +- 0.05 of 2 seeds"
    assert (tile.value, tile.note) == ("0.8", note)


@pytest.mark.parametrize("kind", ODD)
def test_odd_experiments_have_a_page_too(tmp_path, kind, caplog):
    page = report_page(Report(odd(tmp_path / "x", kind)))
    assert not caplog.messages
    assert "cannot be drawn: " not in page
    assert page.count("<script>") == 2  # none of the experiment's
    if kind == "no_trial":
        assert "no trial has started" in page
        assert not re.findall("data-figure=", page.split("<script>")[0])
    if kind == "all_failed":
        assert TAGS not in page
        assert "&lt;b&gt;bold&lt;/b&gt;" in page
