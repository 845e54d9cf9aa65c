import json
import re

import pytest
from confirmed import retrained, searched
from PIL import Image
from stories import ODD, TAGS, odd, search
from synthetic import change_document

from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.results import Results
from tuner.reporting import html
from tuner.reporting.html import (
    build_best_table,
    encode_figure,
    render_comparison_page,
    render_report_page,
    render_template,
)
from tuner.reporting.report import Report

SECTIONS = [
    "best",
    "advice",
    "hyperparameters",
    "stopping",
    "failures",
    "confirmed",
    "provenance",
]


@pytest.fixture(autouse=True)
def _no_plotly_js(monkeypatch):
    """Without five megabytes that most tests here do not read."""
    monkeypatch.setattr(html, "get_plotlyjs", lambda: "")


def get_section(page, name):
    return page.partition(f'<section id="{name}">')[2].partition("</section>")[0]


@pytest.mark.parametrize("images", [True, False])
def test_report_page_shows_mistakes_and_doubtful_labels(tmp_path, images):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    entry = {"file": str(tmp_path / "a.png"), "label": "<b>", "probability": 0.9}
    report = Report(search(tmp_path / "x", 5))
    report.test = {
        "mistakes": [{**entry, "predicted": "tulip"}],
        "doubtful_labels": [{**entry, "suggested": "daisy"}],
    }
    page = render_report_page(report, images=images)
    assert page.count("data:image/jpeg;base64,") == images
    assert "&lt;b&gt;, taken for tulip (0.90)" in page
    assert "<td>daisy</td><td>0.90</td>" in page


@pytest.mark.parametrize("trials", [40, 6])
def test_report_page_has_every_figure(snapshot, tmp_path, trials):
    page = render_report_page(Report(search(tmp_path / "x", trials)))
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    snapshot("\n".join(re.findall(r'<figure id="([^"]+)"', page)))
    drawn = re.findall(r'data-figure="([^"]+)"', page)
    snapshot("\n".join(drawn))
    assert len(re.findall('<script type="application/json">', page)) == len(drawn)
    for text in (
        "The leaders were not retrained.",
        "out of memory",
        "loguniform(0.001, 1)",
    ):
        assert text in page


MAP = """
import numpy as np

def draw_map(results):
    trials = results.dataframe()
    if trials.empty:
        return None
    points = {"x": np.arange(len(trials)), "y": [1.0, float("nan")]}
    return f"Of {results.name}.", {"data": [{"type": "scatter", **points}]}
"""


def test_report_page_has_figures_of_packages(install, tmp_path):
    install("tuner-lab", MAP, figures=("map", "draw_map"))
    page = render_report_page(Report(search(tmp_path / "x", 6)))
    section = page.partition('<section id="plugins">')[2].partition("</section>")[0]
    assert "<h3>map of tuner-lab 1.0</h3>" in section
    assert "Of x." in section
    plot = json.loads(
        re.search(r'<script type="application/json">(.*)</script>', section)[1]
    )
    assert plot["data"][0]["y"] == [1.0, None]
    assert plot["layout"]["height"]
    assert '<a href="#plugins">' in page


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "import nothing_of_that_name",
            "No module named &#39;nothing_of_that_name&#39;",
        ),
        ("def draw_map(results): return 5", "TypeError"),
        (
            "def draw_map(results): return '', {'data': [{'type': 'nonsense'}]}",
            "ValueError",
        ),
    ],
)
def test_broken_figure_of_a_package_loses_no_report(
    install, tmp_path, caplog, code, reason
):
    install("tuner-lab", code, figures=("map", "draw_map"))
    page = render_report_page(Report(search(tmp_path / "x", 6)))
    section = page.partition('<section id="plugins">')[2].partition("</section>")[0]
    assert "map of tuner-lab 1.0" in section
    assert "It cannot be drawn: " in section
    assert reason in section
    assert "<script" not in section
    assert '<section id="provenance">' in page
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(("images", "shown"), [(4, []), (40, ["0.875"])])
def test_report_page_has_the_recall_of_each_class(snapshot, tmp_path, images, shown):
    report = Report(search(tmp_path / "x", 5))
    matrix = [[images * 3 // 4, images // 4], [0, 4]]
    report.test = {"confusion": {"classes": ["cat", "<b>"], "matrix": matrix}}
    cells = re.findall(
        r"<td>([^<]*)</td>", get_section(render_report_page(report), "best")
    )
    snapshot("\n".join(cells[-10:]))
    recalls = [
        value for label, value, _ in report.tiles if label.startswith("macro recall")
    ]
    assert recalls == shown


def test_page_shows_baseline_and_warns_if_unbeaten(tmp_path):
    folder = search(tmp_path / "x", 12).folder
    change_document(
        folder / "experiment.json", validation={"images": 9, "baseline": 0.5}
    )
    report = Report(Results(folder))
    assert next(report.tiles)[2].endswith("; baseline 0.5")
    assert "does not beat the baseline beyond chance" in render_report_page(report)
    assert report.as_dict()["validation"]["baseline"] == 0.5
    change_document(
        folder / "experiment.json", validation={"images": 900, "baseline": 0.1}
    )
    assert "does not beat" not in render_report_page(Report(Results(folder)))


def test_best_table_of_confirmed_search_has_means(snapshot, tmp_path):
    results = searched(tmp_path / "x", {0.1: 0.9, 0.2: 0.8})
    retrained(results, [[0.5, 0.6], [0.7, 0.8]])
    report = Report(Results(results.folder))
    snapshot.compare_value(build_best_table(report))
    snapshot.compare_value(next(report.tiles))
    page = render_report_page(report)
    snapshot(get_section(page, "confirmed"))


@pytest.mark.parametrize("kind", ODD)
def test_report_page_of_odd_experiments_is_complete(tmp_path, kind, caplog):
    page = render_report_page(Report(odd(tmp_path / "x", kind)))
    assert not caplog.messages
    assert "cannot be drawn: " not in page
    assert page.count("<script>") == 2  # none of the experiment's
    if kind == "no_trial":
        assert "no trial has started" in page
        assert not re.findall("data-figure=", page.split("<script>")[0])
    if kind == "all_failed":
        assert TAGS not in page
        assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_comparison_page_has_figures_tables_and_verdict(tmp_path):
    results = [search(tmp_path / name, 12, seed=n) for n, name in enumerate(["a", "b"])]
    page = render_comparison_page(Comparison(results))
    assert re.findall(r'data-figure="(\w+)"', page) == ["epochs", "times", "leaders"]
    assert page.count("<table>") == 2
    assert "their spread is that of the seed" in page
    assert re.findall(r"<tr><td>(\w)</td><td>random</td><td>(\d)</td>", page) == [
        ("a", "0"),
        ("b", "1"),
    ]


def test_figure_json_cannot_end_its_element():
    text = encode_figure({"data": [{"x": ["</script><script>"]}]})
    assert "<" not in text
    assert json.loads(text) == {"data": [{"x": ["</script><script>"]}]}


def test_render_makes_one_file_without_requests(monkeypatch):
    monkeypatch.undo()  # plotly.js is part of the file
    page = render_template("page.html")
    assert page.count("plotly.js v") == 1
    ours = re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.DOTALL)
    assert len(ours) < 10_000  # without plotly.js
    assert "http-equiv" in ours
    assert not re.findall(r"""src=|href="(?!#)|https?:|@import|url\(""", ours)


def test_report_page_escapes_controls(snapshot, writer):
    writer.trial(0, [0.5])
    writer.add(
        "control",
        id="1",
        control={"verb": "num-samples", "num_samples": 9},
        by="<b>ada",
    )
    writer.add(
        "control",
        id="2",
        control={"verb": "try", "config": {"<i>": 1}},
        refused="no <u>",
    )
    writer.end()
    page = render_report_page(Report(writer.results))
    snapshot(
        get_section(page, "controls"), varying={r"\d{4}-\d\d-\d\d \d\d:\d\d": "TIME"}
    )
    assert "num_samples: 9" in get_section(page, "provenance")
