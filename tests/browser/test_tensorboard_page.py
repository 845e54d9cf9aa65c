"""What a person sees of a search in TensorBoard, in a real browser without a screen.

Screenshots go to build/screenshots.
"""

import pytest
from chromium import chromium
from tensorboard_process import RunningTensorBoard

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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

    def texts(self, selector):
        """The texts of the innermost elements inside the first `selector`."""
        script = FIND_ALL + (
            "return inside.filter((e) => !e.children.length)"
            ".map((e) => e.textContent.trim()).filter((text) => text)"
        )
        return self.driver.execute_script(script, selector)

    def wait(self, condition):
        """What `condition()` gives once that is true."""
        return self.browser.wait(condition, lambda: self.texts("tf-hparams-dashboard"))


@pytest.fixture
def page(tmp_path):
    board = RunningTensorBoard(tmp_path)
    try:
        board.sessions()
        with chromium() as browser:
            page = Page(browser, f"http://127.0.0.1:{board.port}")
            page.wait(lambda: "00000" in page.texts("tf-hparams-table-view"))
            yield page
    finally:
        board.close()


def test_the_table_shows_every_trial_with_its_config_and_metrics(page):
    page.browser.screenshot("table.png")
    shown = page.texts("tf-hparams-table-view")
    assert {"batch_size", "layers", "schedule", "status", "best/val_loss"} <= {*shown}
    for trial_id in ("00000", "00004"):
        assert trial_id in shown
    first = shown[shown.index("00000") + 1 :][:5]
    assert {"32.000", "[1, 2]", "None", "completed"} <= {*first}
    assert page.browser.script_errors() == []
