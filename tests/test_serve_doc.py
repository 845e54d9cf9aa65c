"""docs/serve.md says what `tuner serve` does."""

import re

from pages import Page

from tuner.cli.serve import serve
from tuner.experiment.control import CONTROLS
from tuner.service import followed
from tuner.service.api import ENDPOINTS
from tuner.service.watch import HERE, STORE

TEXT = Page("docs/serve.md").text
WORDS = " ".join(TEXT.split())


def test_page_paths_are_endpoints():
    rows = re.findall(r"^\| (?:`(/NAME[^`?]*)[^`]*`|\(nothing\)).* \| `tuner", TEXT, re.MULTILINE)
    known = {one.path.removeprefix("/api/experiments") for one in ENDPOINTS}
    shown = {row.replace("NAME", "{name}").replace("ID", "{trial_id}") for row in rows}
    assert shown == {path for path in known if "/trials/{trial_id}/" not in path} - {
        "/{name}/curves",
        "/{name}/spec",
        "/{name}/report",
    }
    queries = {name for one in ENDPOINTS for name in one.query} - {"metric", "mode"}
    assert queries == {name for name in queries if f"`{name}`" in TEXT or f"?{name}=" in TEXT}


def test_page_options_and_times_equal_code():
    defaults = {option.name: option.default for option in serve.params}
    assert f"`--port {defaults['port']}`" in TEXT
    assert f"`--host {defaults['host']}`" in TEXT
    options = {f"--{name.replace('_', '-')}" for name in defaults}
    assert options <= set(re.findall(r"--[\w-]+", TEXT))
    assert (HERE.running, STORE.running) == (1, 3)
    assert "about every second (3 s in a bucket)" in WORDS
    assert (HERE.new, STORE.new) == (5, 30)
    assert "a new experiment after 5 s (30 s)" in WORDS
    assert (HERE.over, STORE.over) == (5, 120)
    assert "does not run after 5 s (two minutes)" in WORDS
    assert followed._MOST_KEPT == 4
    assert "the last four that were opened" in WORDS


def test_page_verbs_are_controls():
    assert '{"verb": "max-concurrent", "max_concurrent": 4}' in TEXT
    assert "max-concurrent" in CONTROLS
