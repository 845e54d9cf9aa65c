"""Chromium without a screen, for tests of what a person sees; screenshots go to build/."""

import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

SCREENSHOTS = Path(__file__).parents[1] / "build/screenshots"
LIMIT_S = 120


class Browser:
    """One window; `driver` is Selenium's."""

    def __init__(self, driver):
        self.driver = driver

    def wait(self, condition, message=lambda: ""):
        """What `condition()` gives once that is true; `told()` says what there is instead."""
        deadline = time.monotonic() + LIMIT_S
        while not (value := condition()):
            assert time.monotonic() < deadline, message()
            time.sleep(0.1)
        return value

    def screenshot(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / name))

    def script_errors(self):
        """Errors of the page's own scripts, and what its policy refused, as its console tells."""
        entries = self.driver.get_log("browser")
        return [
            e["message"]
            for e in entries
            if e["source"] in ("javascript", "console-api", "security")
        ]


@contextmanager
def chromium(*, width=1500, height=1000):
    """A Browser; skips the test aloud where there is none."""
    pytest.importorskip("selenium", reason="no browser test: selenium is not installed")
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        pytest.skip("no browser test: install chromium and chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    service = Service(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
