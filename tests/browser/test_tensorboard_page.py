"""What a person sees of a search in TensorBoard, in a real browser without a screen.

Screenshots go to build/screenshots.
"""

import pytest
from chromium import chromium
from tensorboard_process import RunningTensorBoard

pytestmark = pytest.mark.browser

TABLE, PARALLEL = "TABLE VIEW", "PARALLEL COORDINATES VIEW"

# Every element that shows, in shadow trees too, from the first one that `selector` finds
FIND_ALL = """
function* all(node) {
  for (const child of [...(node.shadowRoot?.children ?? []), ...node.children]) {
    if (child.checkVisibility()) { yield child; yield* all(child); }
  }
}
const found = [...all(document.body)];
const root = found.find((e) => e.matches(arguments[0]));
const inside = root ? [...all(root)] : [];
"""


class Page:
    """The HPARAMS tab in Chromium."""

    def __init__(self, browser, url):
        self.browser = browser
        self.driver = browser.driver
        self.driver.get(f"{url}/#hparams")

    def texts(self, selector, of="*"):
        """The texts of the innermost elements that match `of` inside the first `selector`."""
        script = FIND_ALL + (
            "return inside.filter((e) => e.matches(arguments[1]) && !e.children.length)"
            ".map((e) => e.textContent.trim()).filter((text) => text)"
        )
        return self.driver.execute_script(script, selector, of)

    def count(self, selector, of):
        """How many elements match `of` inside the first `selector`."""
        script = FIND_ALL + "return inside.filter((e) => e.matches(arguments[1])).length"
        return self.driver.execute_script(script, selector, of)

    def click(self, selector, text):
        """Click the innermost element of this text."""
        script = FIND_ALL + (
            "inside.find((e) => !e.children.length && e.textContent.trim() == arguments[1]).click()"
        )
        self.driver.execute_script(script, selector, text)

    def wait(self, condition):
        """What `condition()` gives once that is true."""
        return self.browser.wait(condition, lambda: self.texts("tf-hparams-dashboard"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium() as browser:
        board = RunningTensorBoard(tmp_path_factory.mktemp("storage"))
        try:
            board.sessions()
            page = Page(browser, f"http://127.0.0.1:{board.port}")
            page.wait(lambda: "00000" in page.texts("tf-hparams-table-view"))
            yield page
        finally:
            board.close()


def test_the_table_shows_every_trial_with_its_config_and_metrics(page):
    page.browser.screenshot("table.png")
    shown = page.texts("tf-hparams-table-view")
    assert shown[2:10] == [
        *("batch_size", "lr", "nesterov", "schedule", "status"),  # layers when ticked
        *("best/val_loss", "val/loss", "val/accuracy"),
    ]
    ids = [f"{number:05}" for number in range(6)]
    rows = {trial_id: shown[shown.index(trial_id) + 1 :] for trial_id in ids}
    config = ["32", "0.010000", "true", "None"]
    assert rows["00000"][:8] == [*config, "completed", "0.20000", "0.30000", "0.70000"]
    assert rows["00001"][:5] == ["128", *config[1:], "stopped"]
    assert rows["00002"][:6] == [*config[:3], "cosine", "failed", "00003"]
    assert rows["00004"][:6] == [*config, "running", "0.50000"]
    assert rows["00005"] == [*config, "running"]


def test_the_filters_are_those_of_the_space(page):
    shown = page.texts("tf-hparams-query-pane")
    for values in (["16", "32", "128"], ["None", "cosine"], ["[1, 2]", "[3]"], ["false", "true"]):
        start = shown.index(values[0])
        assert shown[start : start + len(values)] == values
    for status in ("running", "completed", "stopped", "failed", "Running", "Success", "Failure"):
        assert status in shown


def test_a_filter_hides_the_others(page):
    page.click("tf-hparams-query-pane", "stopped")
    page.wait(lambda: "00001" not in page.texts("tf-hparams-table-view"))
    assert "00000" in page.texts("tf-hparams-table-view")
    page.click("tf-hparams-query-pane", "stopped")
    page.wait(lambda: "00001" in page.texts("tf-hparams-table-view"))


def test_parallel_coordinates_draw_a_line_for_each_trial_that_reported(page):
    page.click("tf-hparams-main", PARALLEL)
    view = "tf-hparams-parallel-coords-view"
    page.wait(lambda: page.count(view, "g.foreground path") == 4)
    page.browser.screenshot("parallel.png")
    shown = page.texts(view)
    for axis in ("batch_size", "lr", "status", "best/val_loss"):
        assert axis in shown
    assert [text for text in shown if text in ("32", "128")] == ["32", "128"]
    assert {"completed", "stopped", "failed", "running"} <= set(shown)
    page.click("tf-hparams-main", TABLE)


def test_the_page_has_no_script_error(page):
    assert page.browser.script_errors() == []
