import json
import re

import plotly.graph_objects as go
import pytest
from jinja2 import UndefinedError

from tuner.errors import UsageError
from tuner.reporting.page import figure_json, render, write_page


def test_figures_are_json_that_cannot_end_their_element():
    told = figure_json(go.Figure(go.Bar(x=["</script><script>"], y=[float("nan")])))
    assert "<" not in told
    (bar,) = json.loads(told)["data"]
    assert (bar["x"], bar["y"]) == (["</script><script>"], [None])


def test_a_page_is_one_file_that_asks_the_network_for_nothing():
    page = render("page.html")
    assert page.count("plotly.js v") == 1
    ours = re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.DOTALL)
    assert len(ours) < 10_000  # without plotly.js
    assert "http-equiv" in ours
    assert not re.findall(r"""src=|href="(?!#)|https?:|@import|url\(""", ours)


def test_what_a_template_is_not_given_is_an_error():
    with pytest.raises(UndefinedError):
        render("report.html")


def test_a_page_replaces_the_one_before_or_leaves_it(tmp_path):
    path = tmp_path / "report.html"
    write_page(path, "one")
    write_page(path, "two é")
    assert path.read_text(encoding="utf-8") == "two é"
    (tmp_path / "folder").mkdir()
    for wrong in (tmp_path / "folder", tmp_path / "no" / "page.html"):
        with pytest.raises(UsageError, match=f"cannot write {wrong}: "):
            write_page(wrong, "x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "report.html"]
