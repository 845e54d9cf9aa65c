"""What a person sees of a report, opened as a file in a real browser without a screen.

Screenshots go to build/screenshots.
"""

import pytest
from chromium import chromium
from stories import odd, search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.html import render_comparison_page, render_report_page, write_page
from tuner.reporting.report import Report

pytestmark = pytest.mark.browser

DRAWN = "return [...document.querySelectorAll('[data-figure]')].map((box) => "
NAMES = DRAWN + "box.dataset.figure)"
PLOTS = DRAWN + "box.querySelectorAll('.main-svg').length > 0)"
TEXT = "return document.getElementById(arguments[0]).textContent"
TRIALS = (
    "const {data} = document.querySelector(`[data-figure=${arguments[0]}]`);"
    "return [...new Set(data.flatMap((trace) => trace.customdata))]"
)
COUNT = "return document.querySelectorAll(arguments[0]).length"


@pytest.fixture(scope="module")
def browser():
    with chromium(width=1200) as browser:
        yield browser


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens a page and returns what runs a script in it."""

    def open_page(page):
        path = tmp_path / "page.html"
        write_page(path, page)
        browser.driver.get(path.as_uri())
        ask = browser.driver.execute_script
        browser.wait(lambda: all(ask(PLOTS)), browser.script_errors)
        return ask

    return open_page


def test_every_figure_of_a_search_is_drawn(browser, open_page, tmp_path):
    results = search(tmp_path / "x", 120)
    ask = open_page(render_report_page(Report(results)))
    assert len(ask(NAMES)) >= 11
    assert len(ask(TRIALS, "parallel")) == 119
    assert len(ask(TRIALS, "curves")) == 120
    assert ask(COUNT, "#contour-0 .contourlayer .contour") == 1
    assert ask(COUNT, "#importance .errorbar") == 3
    assert "lr" in ask(TEXT, "importance")
    assert ask(COUNT, "#best table tr") == 11
    browser.screenshot("report.png")
    assert browser.script_errors() == []


def test_searches_side_by_side_are_drawn(browser, open_page, tmp_path):
    results = [search(tmp_path / f"{n}", 12, seed=n) for n in range(2)]
    ask = open_page(render_comparison_page(Comparison(results)))
    assert ask(NAMES) == ["epochs", "times", "leaders"]
    assert ask(COUNT, "#epochs .scatterlayer .trace") == 3
    browser.screenshot("comparison.png")
    assert browser.script_errors() == []


def test_hostile_texts_stay_text_and_the_page_may_not_ask_the_network(
    browser, open_page, tmp_path
):
    ask = open_page(render_report_page(Report(odd(tmp_path / "x", "hostile"))))
    assert browser.script_errors() == []
    assert "<i>" in ask(TEXT, "slice-0")  # as the text that it is
    assert ask(COUNT, "i, b:not(.tiles b)") == 0
    browser.driver.execute_async_script(
        "fetch('http://127.0.0.1:9/').catch(() => {}).finally(arguments[0])"
    )
    errors = browser.script_errors()
    assert errors
    assert all("Content Security Policy" in error for error in errors)
