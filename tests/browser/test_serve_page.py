"""What a person sees of `tuner serve`, in a real browser without a screen.

Screenshots go to build/screenshots.
"""

import json
import re
import subprocess
from urllib.parse import quote

import pytest
from chromium import chromium
from commands import start
from PIL import Image
from served import TOKEN, Served, listen
from stories import search
from synthetic import Writer, change_document, make_folder

from tuner.experiment import control
from tuner.experiment.changes import CHANGES
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.described import Labels
from tuner.experiment.results.measured_tests import record_test
from tuner.service.queue.entries import Queue

try:
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.keys import Keys
except ImportError:  # `chromium` skips these tests
    ActionBuilder = Keys = None

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
NAME = f"{EVIL}\u202egnp'\"&amp;%2e"
METRIC = f"m{EVIL}"
SPACE = {
    "strategy": "random",
    "space": {"lr": "loguniform(0.0001, 1)", EVIL: "choice(['a', 'b'])"},
}
STRANGERS = (
    "return [...document.querySelectorAll('img, script, b, i, iframe, a')].filter((e) => "
    "!(e.tagName == 'SCRIPT' && ['/page.js', '/plotly.js'].includes(e.getAttribute('src')))"
    "&& !(e.tagName == 'A' && e.getAttribute('href').startsWith('#'))"
    "&& !(e.tagName == 'IMG' && e.getAttribute('src').startsWith('/api/experiments/'))"
    "&& !e.closest('.tile > b, .track > i, .report')).map((e) => e.outerHTML)"
)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    root = tmp_path_factory.mktemp("storage")
    search(root / "digits", 30)
    search(root / "wider", 12, seed=1)
    Labels(("baseline",), EVIL).write(ExperimentFolder(root / "digits"))
    return root


@pytest.fixture(scope="module")
def hostile(storage):
    """A search that a driver holds, in which every name and text is someone's who means ill."""
    writer = Writer(
        make_folder(storage / NAME.replace("/", "\\"), metric=METRIC, search=SPACE)
    )
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
    writer.trial(0, [0.5], end=None, config={"lr": 0.1})
    yield writer
    writer.kill()


@pytest.fixture(scope="module")
def photos(storage):
    """The name of a search whose trial takes a photo for a class of a hostile name."""
    writer = Writer(make_folder(storage / "photos"))
    writer.trial(0, [0.5], end=None, config={"lr": 0.1})
    writer.checkpoint("00000", 1)
    writer.add("trial_ended", trial_id="00000", status="completed")
    writer.end()
    picture = storage.parent / "a.png"
    Image.new("RGB", (200, 200), (200, 30, 30)).save(picture)
    [checkpoint] = writer.results.trials["00000"].checkpoints
    mistake = {
        "file": str(picture),
        "label": "cat",
        "predicted": EVIL,
        "probability": 0.9,
    }
    record = {
        "checkpoint_sha256": checkpoint.sha256,
        "test_accuracy": 0.75,
        "confusion": {"classes": ["cat", EVIL], "matrix": [[2, 1], [0, 1]]},
        "mistakes": [mistake],
    }
    record_test(writer.folder, "00000", record)
    return "photos"


@pytest.fixture(scope="module")
def url(storage, hostile, steered, photos):
    """The URL that the command prints."""
    command = ("serve", "--port", 0, "--storage", storage)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = start(*command, text=True, **pipes)
    yield process.stdout.readline().strip()
    process.terminate()
    process.communicate(timeout=60)


def own_errors(browser):
    """The console's errors, but for styles of plotly.js, which the policy refuses.

    They are those of its maps, and copies of texts that it measures.
    """
    refused = r"/plotly\.js \S+ Applying inline style"
    return [e for e in browser.script_errors() if not re.search(refused, e)]


class Page:
    """The page in one window."""

    def __init__(self, browser, url):
        self.browser = browser
        self.driver = browser.driver
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

    def read_field(self, selector):
        """What a field holds."""
        return self.ask("return document.querySelector(arguments[0]).value", selector)

    def wait(self, condition):
        return self.browser.wait(condition, self.text)

    def expect(self, selector, *texts):
        """Wait until these are the texts of the elements."""
        self.wait(lambda: self.texts(selector) == [*texts])

    def expect_some(self, selector):
        self.wait(lambda: self.texts(selector))

    def expect_drawn(self, *figures):
        """Wait until plotly.js has drawn the figures of these names."""
        charts = [f".plot.{figure} .chart .main-svg" for figure in figures]
        self.wait(lambda: all(map(self.texts, charts)))

    def open(self, place):
        """Go to a place of the page by its part of the URL."""
        self.ask("location.hash = arguments[0]", place)

    def go(self, *parts):
        self.open("/".join(["#", *(quote(part, safe="") for part in parts)]))

    def prefer(self, scheme):
        """Take "dark" or "light" for what the user's system prefers."""
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def click(self, selector):
        self.wait(
            lambda: self.ask("return !!document.querySelector(arguments[0])", selector)
        )
        self.ask("document.querySelector(arguments[0]).click()", selector)

    def type(self, selector, text):
        """Type into a field, or choose an option of a select."""
        script = (
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind))"
        )
        self.ask(script, selector, text)

    def trials(self, figure):
        """The ids of the trials that a figure shows, without repetition."""
        script = (
            "const box = document.querySelector(`.plot.${arguments[0]} .chart`);"
            "return [...new Set((box?.data ?? []).flatMap((trace) => trace.customdata ?? []))]"
        )
        return sorted(self.ask(script, figure))

    def point(self, selector, *shares):
        """Move to a point of an element, in shares of it; with more of them, press and move on."""
        script = (
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const {x, y, width, height} = e.getBoundingClientRect(); return [x, y, width, height]"
        )
        x, y, width, height = self.ask(script, selector)
        points = [
            (round(x + width * across), round(y + height * down))
            for across, down in shares
        ]
        actions = ActionBuilder(self.driver)
        first, *others = points
        pointer = actions.pointer_action.move_to_location(*first)
        if others:
            pointer.pointer_down()
            for point in others:
                pointer.move_to_location(*point)
            pointer.pointer_up()
        actions.perform()

    def resize(self, width, height):
        size = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": False,
        }
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
    assert set(shown) == {
        *(name.replace("\u202e", "\ufffd"), "digits", "steered", "wider", "photos")
    }
    assert page.driver.current_url == page.url  # without the token
    assert page.ask("return document.cookie") == ""
    page.type("#filter", "baseline")
    page.expect(".experiments .name", "digits")
    page.type("#filter", "")
    page.wait(lambda: len(page.texts(".experiments .name")) == 5)
    page.driver.find_element("css selector", "th:nth-child(2) button").send_keys(" ")
    page.expect("th[aria-sort]", "Name")
    # The focus stays
    assert page.ask("return document.activeElement.textContent") == "Name"
    assert page.texts(".experiments .name")[1:] == [
        "digits",
        "photos",
        "steered",
        "wider",
    ]
    assert page.is_harmless()
    page.browser.screenshot("serve-list.png")


def test_hostile_names_stay_text_wherever_they_are_shown(page, name):
    page.go(name)
    page.wait(lambda: len(page.texts(".trials tbody tr")) == 3)
    page.wait(lambda: f"best {METRIC}" in page.texts(".tile span"))
    page.wait(
        lambda: page.texts(".curves .lines path") and page.texts(".history .point")
    )
    page.expect_some(".changes li")
    assert EVIL in page.text()
    [changed] = page.texts(".changes li")
    assert changed.endswith(f', after 0 epochs: {EVIL} none -> {{"{EVIL}": 1}}')
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
    page.wait(
        lambda: page.ask("return document.querySelector('.tiles').offsetParent") is None
    )


# A server that has not answered yet
SILENT = (
    "window.fetch = () => new Promise(() => {});"
    "window.EventSource = class { addEventListener() {} close() {} };"
)


@pytest.fixture
def silenced(page):
    """The page of an experiment of which nothing has come yet."""
    added = page.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": SILENT}
    )
    page.driver.get("about:blank")
    page.driver.get(f"{page.url}#/digits")
    yield page
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_page_of_an_experiment_says_that_it_is_loading(silenced):
    silenced.wait(lambda: silenced.texts(".plots") == ["loading …"])
    assert silenced.texts(".tiles") == ["loading …"]
    assert silenced.texts(".filter .count") == ["loading …"]
    silenced.browser.screenshot("serve-loading.png")


def test_the_verbs_are_asked_for_and_the_hard_ones_confirmed(page, steered):
    files = ExperimentFolder(steered.folder)
    name = steered.folder.name

    def asked():
        return [
            one.control.model_dump(mode="json") for one in control.read_requests(files)
        ]

    page.go(name)
    page.click('.steer [data-verb="pause"]')
    page.wait(lambda: asked() == [{"verb": "pause"}])
    page.click('.steer [data-verb="finish"]')
    page.click("dialog button[type=button]")
    page.expect("dialog")
    page.click('.steer [data-verb="max-concurrent"]')
    page.type("dialog input", "many")
    page.click("dialog [data-agree]")
    page.wait(
        lambda: "max_concurrent: Input should be" in page.texts("dialog .wrong")[0]
    )
    page.type("dialog input", "3")
    page.click("dialog [data-agree]")
    page.wait(lambda: asked()[1:] == [{"verb": "max-concurrent", "max_concurrent": 3}])
    page.expect("dialog")
    page.click('.steer [data-verb="finish"]')
    page.browser.screenshot("serve-confirm.png")
    page.click("dialog [data-agree]")
    page.wait(lambda: asked()[2:] == [{"verb": "finish"}])
    page.expect("dialog")
    page.go(name, "trials", "00000")
    page.click('#drawer [data-verb="stop-trial"]')
    page.click("dialog [data-agree]")
    page.wait(lambda: asked()[3:] == [{"verb": "stop-trial", "trial_id": "00000"}])
    waits = "pause, asked by browser: the driver has not answered yet"
    page.wait(lambda: waits in page.texts(".asked li"))
    pause, more, *_ = control.read_requests(files)
    for answered, extra in ((pause, {}), (more, {"refused": EVIL})):
        plain = answered.model_dump(mode="json")
        steered.add("control", **plain, **extra)
    page.wait(lambda: "paused" in page.texts(".head .status"))
    page.wait(
        lambda: any(
            text.endswith(f"; not done: {EVIL}") for text in page.texts(".asked li")
        )
    )
    page.browser.screenshot("serve-steered.png")
    assert page.is_harmless()


@pytest.mark.slow
def test_what_is_reported_appears_without_a_reload(page, hostile, name):
    page.go(name)
    page.expect_some(".trials tbody tr")
    page.ask("window.here = 1")
    report = {METRIC: 0.987, f"{EVIL}2": 0.1}
    hostile.add("result", trial_id="00002", epoch=3, metrics=report)
    page.wait(lambda: "0.987" in page.texts(".tile b"))
    page.wait(lambda: any("0.987" in row for row in page.texts(".trials tbody tr")))
    curves = "return document.querySelector('.curves .chart').data.flatMap((trace) => trace.y)"
    page.expect_drawn("curves")
    page.wait(lambda: 0.987 in page.ask(curves))
    assert page.ask("return window.here") == 1


@pytest.mark.slow
def test_trials_are_chosen_and_the_report_is_shown_apart(page):
    page.go("digits")
    page.wait(lambda: len(page.texts(".trials tbody tr")) == 30)
    page.type("#where", "val_accuracy > 0.95")
    page.wait(lambda: 0 < len(page.texts(".trials tbody tr")) < 30)
    page.type("#where", "val_accuracy >")
    page.wait(lambda: page.texts(".filter .wrong")[0].startswith("--where"))
    page.go("digits", "report")
    assert page.texts(".frame .empty") == ["Making the report …"]
    page.wait(lambda: page.texts(".frame .report") and not page.texts(".frame .making"))
    frame = page.driver.find_element("css selector", "iframe.report")
    page.driver.switch_to.frame(frame)
    page.wait(
        lambda: page.ask("return document.querySelectorAll('[data-figure]').length") > 5
    )
    assert page.ask("return window.origin") == "null"
    assert (
        page.ask("try { return document.cookie } catch (e) { return e.name }")
        == "SecurityError"
    )


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page, photos, width, scheme):
    page.resize(width, 900)
    page.prefer(scheme)
    views = {
        "#/": ".experiments td",
        "#/digits": ".trials td",
        f"#/{photos}/trials/00000": "#drawer .pictures figcaption",
        "#compare/digits/wider": ".plot.leaders .main-svg",
        "#new": ".examples button",
    }
    for number, (place, shown) in enumerate(views.items()):
        page.open(place)
        page.wait(lambda shown=shown: page.texts(shown))
        page.wait(
            lambda: page.ask(
                "return document.documentElement.scrollWidth <= innerWidth"
            )
        )
        page.browser.screenshot(f"serve-{scheme}-{width}-{number}.png")
    assert page.is_harmless()


def test_marked_experiments_are_compared(page):
    assert page.ask("return document.querySelector('#compare').disabled")
    for name in ("digits", "wider"):
        page.click(f"input[aria-label='Compare {name}']")
    page.expect("#compare", "Compare 2")
    page.click("#compare")
    page.expect_drawn("epochs", "times", "leaders")
    titles = page.texts(".part h2")
    assert titles[:2] == ["Which is ahead", "On average over the seeds"]
    assert page.texts(".part:nth-child(3) thead th") == [
        "hyperparameter",
        "digits",
        "wider",
    ]
    assert page.texts(".part:nth-child(3) .differs th") != []
    page.open("#compare/digits/nope")
    page.wait(lambda: "no experiment 'nope'" in page.texts(".problem")[0])
    assert page.is_harmless()


def test_new_search_is_checked_as_it_is_typed_and_queued(page, storage):
    page.open("#new")
    page.wait(lambda: "digits" in page.texts(".examples button"))
    page.type(
        "#spec", "search:\n  space:\n    lr: loguniform(1, 0.1)\nnum_samples: 3\n"
    )
    page.expect("#faults button", "line 3")
    assert "search.space.lr: " in page.texts("#faults li")[0]
    page.click("#faults button")
    chosen = "const e = document.querySelector('#spec');"
    chosen += "return e.value.slice(e.selectionStart, e.selectionEnd)"
    assert page.ask(chosen) == "    lr: loguniform(1, 0.1)"
    assert page.ask("return document.querySelector('#add').disabled")
    page.type("#spec", "digits num_samples=3")
    page.wait(lambda: page.texts(".plan")[0].startswith("digits-2 would run"))
    page.browser.screenshot("serve-new.png")
    page.click("#add")
    page.expect(".toast", "digits-2 is in the queue")
    page.expect(".part tbody th", "digits-2")
    assert Queue(str(storage)).read_entry("digits-2").spec["num_samples"] == 3
    assert page.is_harmless()


def test_new_search_that_was_left_is_not_checked(page):
    page.open("#new")
    page.expect_some(".examples button")
    page.ask("window.asked = []; window.fetch = (path) => { window.asked.push(path); }")
    page.type("#spec", "digits num_samples=3")
    page.go()
    page.expect_some(".experiments .name")
    pause = "setTimeout(arguments[0], 1000)"  # longer than after the last key
    page.driver.execute_async_script(pause)
    assert page.ask("return window.asked") == []


def test_new_search_of_an_unknown_trial_shows_why(page):
    page.open("#new/digits/99999")
    page.wait(lambda: any("99999" in text for text in page.texts(".toast.failed")))
    assert len(own_errors(page.browser)) == 1  # the console has it, too


def test_trial_shows_the_photos_that_it_gets_wrong_and_varies(page, photos, steered):
    page.go(photos, "trials", "00000")
    page.expect_drawn("reports", "confusion")
    assert page.texts("#drawer .pictures figcaption") == [
        f"cat, taken for {EVIL} (0.90): a.png"
    ]
    page.wait(
        lambda: (
            page.ask("return document.querySelector('.pictures img').naturalWidth")
            == 96
        )
    )
    page.click("#drawer .head a")
    page.wait(lambda: "points_to_evaluate" in page.read_field("#spec"))
    page.go(steered.folder.name, "trials", "00000")
    page.click('#drawer [data-verb="try"]')
    tried = "return document.querySelector('dialog textarea').value"
    page.expect("dialog h2", "Try a variation")
    assert json.loads(page.ask(tried)) == {"lr": 0.1}
    assert page.is_harmless()


def test_empty_storage_offers_a_start(browser, tmp_path):
    ask = browser.driver.execute_script
    with listen(tmp_path) as url:
        browser.driver.get(f"{url}/?token={TOKEN}")
        shown = "return document.querySelector('.empty').innerText"
        browser.wait(lambda: "No experiments yet." in ask(shown))
        ask("document.querySelector('.empty a').click()")
        queue = "return document.querySelector('#main').innerText"
        browser.wait(lambda: "tuner queue run --stay" in ask(queue))


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
    page.expect_some(".advice li")
    commands = page.texts(".advice code")
    assert commands == [finding["action"]["command"] for finding in findings]
    assert page.is_harmless()


def test_a_running_search_gets_what_its_advice_says(page, steered):
    page.go("steered")
    page.click(".advice button")
    assert (
        page.texts("dialog p")[0] == "This search runs 40 trials in all, in place of 4."
    )
    page.click("dialog [data-agree]")
    page.expect(".toast", "asked for: Run 40 trials")
    request = control.read_requests(ExperimentFolder(steered.folder))[-1]
    assert request.control == control.build_control("num-samples", 40)


PROGRESS, HYPERPARAMETERS = (f".tools button:nth-child({n})" for n in (1, 2))


WHITE = "rgb(255, 255, 255)"
BLACK = "rgb(0, 0, 0)"
BEST = (
    "return [...document.querySelectorAll('.curves .lines path')].at(-1)?.style.stroke"
)


@pytest.fixture
def digits(page):
    """The page of a search of 30 trials, with its figures drawn."""
    page.resize(1280, 1400)
    page.go("digits")
    page.expect_drawn("history", "curves", "rungs")
    yield page
    assert page.is_harmless()


def test_every_figure_has_a_name_and_is_drawn_in_either_scheme(digits):
    page = digits
    for scheme in ("dark", "light"):
        page.prefer(scheme)
        page.click(PROGRESS)
        page.expect_drawn("history")
        ink = {"dark": WHITE, "light": BLACK}[scheme]
        page.wait(lambda ink=ink: page.ask(BEST) == ink)
        page.browser.screenshot(f"serve-progress-{scheme}.png")
        page.click(HYPERPARAMETERS)
        page.expect_drawn("importance", "parallel", "slice-2", "contour-2")
        page.browser.screenshot(f"serve-hyperparameters-{scheme}.png")
    names = page.ask(
        "return [...document.querySelectorAll('.chart')].map((e) => e.ariaLabel)"
    )
    assert names[0].startswith(
        "Importance: Which of lr and momentum matters most cannot"
    )
    assert names == [
        f"{title}: {caption}"
        for title, caption in zip(
            page.texts(".plot h2"), page.texts(".plot .caption"), strict=True
        )
    ]


def test_figures_out_of_the_page_take_the_scheme_that_is_preferred_when_they_return(
    digits,
):
    page = digits
    page.prefer("dark")
    page.wait(lambda: page.ask(BEST) == WHITE)
    page.click(HYPERPARAMETERS)
    page.expect_drawn("importance")
    page.prefer("light")
    page.click(PROGRESS)
    page.wait(lambda: page.ask(BEST) == BLACK)


def test_filter_status_and_the_best_reach_table_and_figures(digits, storage):
    page = digits
    served = Served(storage)

    def shows(**query):
        ids = sorted(
            row["trial_id"] for row in served.get("digits", "trials", **query).json()
        )
        rows = sorted(page.texts(".trials tbody td:first-child"))
        return ids == rows == page.trials("history") == page.trials("curves")

    page.type("#where", "lr > 0.05 and lr < 0.5")
    page.wait(lambda: shows(where="lr > 0.05 and lr < 0.5"))
    page.type("#status", "stopped")
    page.wait(lambda: shows(where="lr > 0.05 and lr < 0.5 and status == 'stopped'"))
    page.type("#status", "")
    page.type("#where", "")
    page.type("#top", "10")
    page.wait(lambda: shows(top=10))
    page.click(HYPERPARAMETERS)
    page.wait(lambda: page.trials("parallel") == page.trials("slice-0") != [])
    assert len(page.trials("parallel")) == 10
    page.type("#where", "trial_id < '00006'")
    reason = "Nothing to show: it takes 10 trials with a value, and there are 5."
    page.expect(".hyperparameters .caption", reason)
    assert page.texts(".plot.slice-0") == []


def test_click_opens_the_trial_and_pointing_shows_its_config(digits):
    page = digits
    [best] = page.ask(
        "return document.querySelector('.curves .chart').data.at(-1).meta"
    )
    point = (
        "const box = document.querySelector('.curves .chart'), {_fullLayout: on, data} = box;"
        "box.scrollIntoView({block: 'center'});"
        "const {x, y, width, height} = box.getBoundingClientRect(), best = data.at(-1);"
        "return [(on.xaxis._offset + on.xaxis.d2p(best.x[7])) / width,"
        " (on.yaxis._offset + on.yaxis.d2p(best.y[7])) / height]"
    )
    at = page.ask(point)
    page.point(".curves .chart", at)
    told = rf"trial {best}: 0\.\d+; lr=0\.\d+ momentum=0\.\d+ width=\d+"
    page.wait(lambda: re.fullmatch(told, page.texts(".curves .told")[0]))
    page.point(".curves .chart", at, at)
    page.expect("#drawer h1", f"Trial {best}")
    page.expect_some("#drawer .chart .lines path")


def test_a_trial_stands_beside_the_best(digits, storage):
    page = digits
    served = Served(storage)
    rows = served.get("digits", "trials", top=2).json()
    leader = served.get("digits").json()["best"]["trial_id"]
    best, other = sorted(rows, key=lambda row: row["trial_id"] != leader)
    page.go("digits", "trials", other["trial_id"])
    page.expect("#drawer h1", f"Trial {other['trial_id']}")
    ids = sorted(row["trial_id"] for row in (best, other))
    page.wait(lambda: page.trials("reports") == ids)
    differing = [
        name for name, value in best["config"].items() if other["config"][name] != value
    ]
    assert page.texts("#drawer .differs th") == differing != []
    page.browser.screenshot("serve-trial.png")
    page.go("digits", "trials", best["trial_id"])
    page.wait(lambda: page.trials("reports") == [best["trial_id"]])
    assert page.texts("#drawer .differs") == []


def test_brushed_axes_filter_the_table(digits):
    page = digits
    page.click(HYPERPARAMETERS)
    page.expect_drawn("parallel")
    lines = page.trials("parallel")
    heights = page.ask(
        "const chart = document.querySelector('.parallel .chart');"
        "const {yaxis, xaxis, height, width} = chart._fullLayout;"
        "return [xaxis._offset + xaxis.d2p(1), xaxis._offset + xaxis.d2p(3)].map((x) => x / width)"
        ".concat([0.5, 1.1].map((y) => (yaxis._offset + yaxis.d2p(y)) / height))"
    )
    lr, width, middle, high = heights
    page.point(".parallel .chart", (lr - 0.02, middle), (lr + 0.02, high))
    page.wait(lambda: page.trials("parallel") != lines)
    where = page.read_field("#where")
    assert re.fullmatch(r"0\.03\d* <= lr", where)
    typed = "lr > 0.1 or momentum > 0.5"
    page.type("#where", typed)
    page.wait(lambda: page.trials("parallel") not in (lines, []))
    page.point(".parallel .chart", (width - 0.02, middle), (width + 0.02, high))
    part = f"({typed}) and width in [32]"
    page.wait(lambda: page.read_field("#where") == part)
    page.wait(lambda: {*page.texts(".trials tbody td:last-child")} == {"32"})
    assert len(page.texts(".trials tbody tr")) < len(lines)


def test_axes_are_limited_by_keyboard(digits):
    page = digits
    said = "const {ariaValueText: text, labels: [label]} = document.activeElement;"
    said += "return [label.textContent.trim(), text, getComputedStyle(label.control).outlineStyle]"

    def press(*keys):
        page.driver.switch_to.active_element.send_keys(*keys)

    page.click(HYPERPARAMETERS)
    page.expect_drawn("parallel")
    lines = page.trials("parallel")
    page.ask("document.querySelector('.parallel .span select').focus()")
    press(Keys.ARROW_DOWN, Keys.TAB)
    assert page.ask(said) == ["from", "all of lr", "solid"]
    press(Keys.PAGE_UP * 5)
    lower = page.read_field("#where")
    assert re.fullmatch(r"0\.0\d+ <= lr", lower)
    page.wait(lambda: page.trials("parallel") != lines)
    press(Keys.TAB)
    press(Keys.ARROW_LEFT)
    assert page.read_field("#where").startswith(f"{lower} <= 0.")
    assert page.ask(said) == ["to", page.read_field("#where"), "solid"]
    page.browser.screenshot("serve-span.png")
    press(Keys.END)
    assert page.read_field("#where") == lower  # all of what there was before the filter
    page.ask("document.querySelector('.parallel .span select').focus()")
    press(Keys.END, Keys.TAB)
    press(Keys.ARROW_RIGHT)
    page.wait(lambda: page.read_field("#where") == f"{lower} and width in [32]")


def test_figures_without_their_library_say_so(page):
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/plotly.js"]})
    try:
        page.go("digits")
        page.wait(lambda: any(page.texts(".history .told")))
        assert page.texts(".history .told")[0].startswith(
            "This figure cannot be drawn here: "
        )
        page.expect_some(".advice li")
        assert own_errors(page.browser) != []  # the console has it, too
    finally:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def test_best_so_far_by_time_and_curves_of_another_metric(digits):
    page = digits
    title = (
        "return document.querySelector(`.${arguments[0]} .chart`)"
        ".layout[arguments[1]].title.text"
    )
    page.type(".history select", "time")
    page.wait(lambda: page.ask(title, "history", "xaxis") == "minutes of searching")
    page.type(".curves select", "peak_memory_mib")
    page.wait(lambda: page.ask(title, "curves", "yaxis") == "peak_memory_mib")


def test_figures_are_usable_without_a_pointer(digits):
    page = digits
    focusable = (
        "return [...document.querySelectorAll('.filter *, .tools *, .plot *')].filter("
    )
    focusable += "(e) => e.tabIndex === 0 && e.offsetParent).map((e) => e.tagName + e.textContent)"
    names = page.ask(focusable)
    assert [name for name in names if name.startswith("BUTTON")] == [
        "BUTTONProgress",
        "BUTTONHyperparameters",
    ]
    assert sum(name.startswith("SELECT") for name in names) == 4
    page.driver.find_element("css selector", HYPERPARAMETERS).send_keys(" ")
    page.expect_drawn("importance")
