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


def open_report(browser, results):
    open_page(
        browser, results.folder / "report.html", render_report_page(Report(results))
    )


def open_page(browser, path, page):
    write_page(path, page)
    browser.driver.get(path.as_uri())
    browser.wait(
        lambda: all(browser.driver.execute_script(PLOTS)), browser.script_errors
    )


def test_every_figure_of_a_search_is_drawn(browser, tmp_path):
    results = search(tmp_path / "x", 40)
    open_report(browser, results)
    ask = browser.driver.execute_script
    assert len(ask(NAMES)) >= 11
    assert len(ask(TRIALS, "parallel")) == 39
    assert len(ask(TRIALS, "curves")) == 40
    assert ask(COUNT, "#contour-0 .contourlayer .contour") == 1
    assert ask(COUNT, "#importance .errorbar") == 3
    assert "lr" in ask(TEXT, "importance")
    assert ask(COUNT, "#best table tr") == 11
    browser.screenshot("report.png")
    assert browser.script_errors() == []


def test_many_trials_and_odd_ones_are_drawn_too(browser, tmp_path):
    for results in (
        search(tmp_path / "many", 120),
        odd(tmp_path / "hostile", "hostile"),
    ):
        open_report(browser, results)
        assert browser.script_errors() == []
    ask = browser.driver.execute_script
    assert "<i>" in ask(TEXT, "slice-0")  # as the text that it is
    assert ask(COUNT, "i, b:not(.tiles b)") == 0


def test_searches_side_by_side_are_drawn(browser, tmp_path):
    results = [search(tmp_path / name, 12, seed=n) for n, name in enumerate(["a", "b"])]
    open_page(
        browser, tmp_path / "page.html", render_comparison_page(Comparison(results))
    )
    assert browser.driver.execute_script(NAMES) == ["epochs", "times", "leaders"]
    assert browser.driver.execute_script(COUNT, "#epochs .scatterlayer .trace") == 3
    browser.screenshot("comparison.png")
    assert browser.script_errors() == []


def test_the_page_may_not_ask_the_network(browser, tmp_path):
    open_report(browser, odd(tmp_path / "x", "one_trial"))
    browser.driver.execute_async_script(
        "fetch('http://127.0.0.1:9/').catch(() => {}).finally(arguments[0])"
    )
    told = browser.script_errors()
    assert told
    assert all("Content Security Policy" in error for error in told)
