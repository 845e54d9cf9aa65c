import re

import pytest
from stories import search

from tuner.reporting import page as pages
from tuner.reporting.comparison_page import comparison_page
from tuner.results.comparison import Comparison


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "get_plotlyjs", lambda: "")
    results = [search(tmp_path / name, 12, seed=n) for n, name in enumerate(["a", "b"])]
    return comparison_page(Comparison(results))


def test_it_has_the_figures_the_tables_and_the_verdict(page):
    assert re.findall(r'data-figure="(\w+)"', page) == ["trials", "epochs", "seconds"]
    assert page.count("<table>") == 3
    assert "their spread is that of the seed" in page
    assert re.findall(r"<tr><td>(\w)</td><td>random</td><td>(\d)</td>", page) == [
        ("a", "0"),
        ("b", "1"),
    ]
