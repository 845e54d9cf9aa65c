"""What a person sees of `tuner serve`, in a real browser without a screen.

Screenshots go to build/screenshots.
"""

import os
import subprocess
import sys
from urllib.parse import quote

import pytest
from chromium import chromium
from served import Served
from stories import search
from synthetic import Writer, change_document, make_folder

from tuner.experiment import control
from tuner.experiment.changes import CHANGES
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.described import Labels

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
NAME = f"{EVIL}\u202egnp'\"&amp;%2e"
METRIC = f"m{EVIL}"
SPACE = {"strategy": "random", "space": {"lr": "loguniform(0.0001, 1)", EVIL: "choice(['a', 'b'])"}}
STRANGERS = (
    "return [...document.querySelectorAll('img, script, b, i, iframe, a')].filter((e) => "
    "!(e.tagName == 'SCRIPT' && ['/page.js', '/plotly.js'].includes(e.getAttribute('src')))"
    "&& !(e.tagName == 'A' && e.getAttribute('href').startsWith('#/'))"
    "&& !e.closest('.tile > b, .track > i, .report')).map((e) => e.outerHTML)"
)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    root = tmp_path_factory.mktemp("storage")
    search(root / "digits", 30)
    Labels(("baseline",), EVIL).write(ExperimentFolder(root / "digits"))
    return root


@pytest.fixture(scope="module")
def hostile(storage):
    """A search that a driver holds, in which every name and text is someone's who means ill."""
    writer = Writer(make_folder(storage / NAME.replace("/", "\\"), metric=METRIC, search=SPACE))
    now = writer.journal.clock()
    change = {"time": now, "was": {EVIL: None}, "is": {EVIL: {EVIL: 1}}, "epochs": 10}
    path = writer.folder / "experiment.json"
    change_document(path, **{CHANGES: [change]})
    config = {"lr": 0.1, EVIL: EVIL, "nested": {EVIL: [EVIL]}}
    reports = [{METRIC: v, f"{EVIL}2": v} for v in (0.5, 0.7)]
    writer.trial(0, reports, config=config)
    writer.trial(1, reports, config=config, error=("exception", f"{EVIL}\x1b[2J"))
    writer.trial(2, reports, config=config, end=None)
    log = writer.folder / "trials/00001/log.txt"
    log.parent.mkdir(parents=True)
    log.write_text(f"\x1b[31m{EVIL}\x1b[0m\r\n\x1b]0;title\x07</pre>{EVIL}")
    yield writer
    writer.kill()


@pytest.fixture(scope="module")
def steered(storage):
    """A search that a driver holds, which takes controls."""
    writer = Writer(make_folder(storage / "steered"))
    writer.trial(0, [0.5], end=None)
    yield writer
    writer.kill()


@pytest.fixture(scope="module")
def url(storage, hostile, steered):
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "serve", "--port", "0", "--storage", storage],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    yield process.stdout.readline().strip()
    process.terminate()
    process.communicate(timeout=60)


def own_errors(browser):
    """The console's errors, but for the styles of plotly.js for maps, which the policy refuses."""
    return [e for e in browser.script_errors() if "/plotly.js" not in e]


class Page:
    """The page in one window."""

    def __init__(self, browser, url):
        self.browser, self.driver = browser, browser.driver
        self.url = url.partition("?")[0]
        self.driver.get(url)
        self.wait(lambda: self.texts(".experiments .name"))

    def ask(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.ask(script, selector)

    def text(self):
        return self.ask("return document.body.textContent")

    def wait(self, condition):
        return self.browser.wait(condition, self.text)

    def go(self, *parts):
        self.ask(
            "location.hash = arguments[0]", "/".join(["#", *(quote(p, safe="") for p in parts)])
        )

    def click(self, selector):
        self.wait(lambda: self.ask("return !!document.querySelector(arguments[0])", selector))
        self.ask("document.querySelector(arguments[0]).click()", selector)

    def type(self, selector, text):
        script = (
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind))"
        )
        self.ask(script, selector, text)

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def is_harmless(self):
        """Whether nothing that came from an experiment has become more than text."""
        assert self.ask("return window.hacked") is None
        assert self.ask(STRANGERS) == []
        assert own_errors(self.browser) == []
        return True


@pytest.fixture(scope="module")
def browser():
    with chromium(width=1280, height=900) as browser:
        yield browser


@pytest.fixture
def page(browser, url):
    browser.driver.get("about:blank")
    return Page(browser, url)


@pytest.fixture
def name(hostile):
    return hostile.folder.name


def test_the_list_is_filtered_and_sorted(page, name):
    shown = page.texts(".experiments .name")
    assert set(shown) == {name.replace("\u202e", "\ufffd"), "digits", "steered"}
    assert page.driver.current_url == page.url  # without the token
    assert page.ask("return document.cookie") == ""
    page.type("#filter", "baseline")
    page.wait(lambda: page.texts(".experiments .name") == ["digits"])
    page.type("#filter", "")
    page.wait(lambda: len(page.texts(".experiments .name")) == 3)
    page.click("th:first-child button")
    page.wait(lambda: page.texts("th[aria-sort]") == ["Name"])
    assert page.texts(".experiments .name")[1:] == ["digits", "steered"]
    assert page.is_harmless()
    page.browser.screenshot("serve-list.png")


def test_hostile_names_stay_text_wherever_they_are_shown(page, name):
    page.go(name)
    page.wait(lambda: len(page.texts(".trials tbody tr")) == 3)
    page.wait(lambda: METRIC in page.texts(".tile span"))
    page.wait(lambda: page.texts(".chart .lines path") and page.texts(".chart .point"))
    page.wait(lambda: page.texts(".changes li"))
    assert EVIL in page.text()
    [changed] = page.texts(".changes li")
    assert changed.endswith(f', after 0 epochs: {EVIL} none → {{"{EVIL}":1}}')
    page.browser.screenshot("serve-hostile.png")
    page.go(name, "trials", "00001")
    page.wait(lambda: "title" in "".join(page.texts("#drawer pre")))
    assert "Failure: exception" in page.texts("#drawer h2")
    assert "\x1b" not in page.text()
    assert "\u202e" not in page.text()
    assert page.is_harmless()
    page.browser.screenshot("serve-trial.png")


def test_page_of_an_unknown_experiment_shows_why_and_no_tiles(page):
    page.go("nope")
    page.wait(lambda: "no experiment 'nope'" in page.texts(".problem")[0])
    page.wait(lambda: page.ask("return document.querySelector('.tiles').offsetParent") is None)


# A server that has not answered yet
SILENT = (
    "window.fetch = () => new Promise(() => {});"
    "window.EventSource = class { addEventListener() {} close() {} };"
)


@pytest.fixture
def silenced(page):
    """The page of an experiment of which nothing has come yet."""
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SILENT})
    page.driver.get("about:blank")
    page.driver.get(f"{page.url}#/digits")
    yield page
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_page_of_an_experiment_says_that_it_is_loading(silenced):
    silenced.wait(lambda: silenced.texts(".plot .chart") == ["loading …"] * 2)
    assert silenced.texts(".tile > :last-child") == ["loading …"] * 4
    assert silenced.texts(".trials .count") == ["loading …"]
    silenced.browser.screenshot("serve-loading.png")


def test_the_verbs_are_asked_for_and_the_hard_ones_confirmed(page, steered):
    files, name = ExperimentFolder(steered.folder), steered.folder.name

    def asked():
        return [one.control.model_dump(mode="json") for one in control.requested(files)]

    page.go(name)
    page.click('.steer [data-verb="pause"]')
    page.wait(lambda: asked() == [{"verb": "pause"}])
    page.click('.steer [data-verb="finish"]')
    page.click("dialog button[type=button]")
    page.wait(lambda: page.texts("dialog") == [])
    page.click('.steer [data-verb="max-concurrent"]')
    page.type("dialog input", "many")
    page.click("dialog [data-agree]")
    page.wait(lambda: "max_concurrent: Input should be" in page.texts("dialog .wrong")[0])
    page.type("dialog input", "3")
    page.click("dialog [data-agree]")
    page.wait(lambda: asked()[1:] == [{"verb": "max-concurrent", "max_concurrent": 3}])
    page.click('.steer [data-verb="finish"]')
    page.browser.screenshot("serve-confirm.png")
    page.click("dialog [data-agree]")
    page.wait(lambda: asked()[2:] == [{"verb": "finish"}])
    page.go(name, "trials", "00000")
    page.click('#drawer [data-verb="stop-trial"]')
    page.click("dialog [data-agree]")
    page.wait(lambda: asked()[3:] == [{"verb": "stop-trial", "trial_id": "00000"}])
    waits = "pause, asked by browser: the driver has not answered yet"
    page.wait(lambda: waits in page.texts(".asked li"))
    pause, more, *_ = control.requested(files)
    for answered, extra in ((pause, {}), (more, {"refused": EVIL})):
        plain = answered.model_dump(mode="json")
        steered.add("control", **plain, **extra)
    page.wait(lambda: "paused" in page.texts(".head .status"))
    page.wait(lambda: any(text.endswith(f"; not done: {EVIL}") for text in page.texts(".asked li")))
    page.browser.screenshot("serve-steered.png")
    assert page.is_harmless()


@pytest.mark.slow
def test_what_is_reported_appears_without_a_reload(page, hostile, name):
    page.go(name)
    page.wait(lambda: page.texts(".trials tbody tr"))
    page.ask("window.here = 1")
    report = {METRIC: 0.987, f"{EVIL}2": 0.1}
    hostile.add("result", trial_id="00002", epoch=3, metrics=report)
    page.wait(lambda: "0.9870" in page.texts(".tile b"))
    page.wait(lambda: any("0.9870" in row for row in page.texts(".trials tbody tr")))
    assert page.ask("return window.here") == 1


@pytest.mark.slow
def test_trials_are_chosen_and_the_report_is_shown_apart(page):
    page.go("digits")
    page.wait(lambda: len(page.texts(".trials tbody tr")) == 30)
    page.type("#where", "val_accuracy > 0.95")
    page.wait(lambda: 0 < len(page.texts(".trials tbody tr")) < 30)
    page.type("#where", "val_accuracy >")
    page.wait(lambda: page.texts(".trials .wrong")[0].startswith("--where"))
    page.go("digits", "report")
    assert page.texts(".frame .empty") == ["Making the report …"]
    page.wait(lambda: page.texts(".frame .empty") == [] and not page.texts(".report.making"))
    frame = page.driver.find_element("css selector", "iframe.report")
    page.driver.switch_to.frame(frame)
    page.wait(lambda: page.ask("return document.querySelectorAll('[data-figure]').length") > 5)
    assert page.ask("return window.origin") == "null"
    assert page.ask("try { return document.cookie } catch (e) { return e.name }") == "SecurityError"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page, width, scheme):
    page.resize(width, 900)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for parts in ((), ("digits",), ("digits", "trials", "00004")):
        page.go(*parts)
        page.wait(lambda shown=".trials" if parts else ".experiments": page.texts(f"{shown} td"))
        page.wait(lambda: page.ask("return document.documentElement.scrollWidth <= innerWidth"))
        page.browser.screenshot(f"serve-{scheme}-{width}-{len(parts)}.png")


def test_without_the_token_it_says_where_it_is(browser, url):
    browser.driver.get("about:blank")
    browser.driver.delete_all_cookies()
    browser.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    browser.driver.get(url.partition("?")[0])
    text = "return document.body.textContent"
    browser.wait(lambda: "needs the token" in browser.driver.execute_script(text))
    assert len(own_errors(browser)) <= 1  # the browser tells of the answer, 401


def test_an_ended_search_shows_its_advice(page, storage):
    page.go("digits")
    findings = Served(storage).get("digits", "advice").json()["findings"]
    page.wait(lambda: page.texts(".advice li"))
    commands = page.texts(".advice code")
    assert commands == [finding["action"]["command"] for finding in findings]
    assert page.is_harmless()
