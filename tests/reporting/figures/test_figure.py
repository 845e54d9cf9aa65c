import logging
from pathlib import Path
from typing import get_args

import plotly.graph_objects as go
import pytest
from stories import odd, search

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.figures import _figure
from tuner.reporting.figures._figure import (
    COLOURS,
    Section,
    Variant,
    draw_section,
    figure,
    time_axis,
)
from tuner.reporting.report import Report


@pytest.fixture
def declared(monkeypatch, tmp_path):
    """Only the figures of the test are declared."""
    draw_section("best", Report(odd(tmp_path / "x", "no_trial")))  # imports the others
    monkeypatch.setattr(_figure, "_DECLARED", [])


def test_every_module_without_an_underscore_is_a_figure_in_one_place(tmp_path):
    results = [search(tmp_path / name, 30) for name in "ab"]
    next(iter(results[0].trials.values())).forecasts = {1: {}}  # as a scheduler that predicts
    subjects = dict.fromkeys(get_args(Section), Report(results[0]))
    subjects["comparison"] = Comparison(results)
    shown = {s: [one.name for one in draw_section(s, of)] for s, of in subjects.items()}
    modules = {path.stem for path in Path(_figure.__file__).parent.glob("[!_]*.py")}
    several = {"slice": "slice-0", "contour": "contour-0", "comparison": "trials"}
    compared = shown.pop("comparison")  # a page of its own
    reported = [name for in_section in shown.values() for name in in_section]
    assert {several.get(module, module) for module in modules} <= {*reported, *compared}
    for page in (reported, compared):
        assert len(page) == len(set(page))
    assert shown["hyperparameters"][:2] == ["importance", "parallel"]  # the whole ones first


@pytest.mark.usefixtures("declared")
def test_a_figure_has_our_look_and_no_title_of_its_own():
    @figure("Ours", section="best", order=1)
    def draw(subject):
        return f"Read {subject}.", go.Figure(layout={"title": "Optuna's", "height": 500})

    (drawn,) = draw_section("best", "this")
    assert (drawn.name, drawn.title, drawn.caption) == ("test_figure", "Ours", "Read this.")
    assert drawn.plot.layout.title.text == ""
    assert drawn.plot.layout.height == 500
    assert drawn.plot.layout.colorway == COLOURS
    assert draw_section("stopping", "this") == []


@pytest.mark.usefixtures("declared")
def test_one_that_cannot_be_drawn_says_so_and_costs_only_itself(caplog):
    def each(subject):
        return (Variant(f"x-{i}", f"Ours {i}", i) for i in range(2))

    @figure("Ours", section="best", order=1, variants=each)
    def draw(subject, i):
        if not i:
            raise RuntimeError(f"no {subject}")
        return "Read this.", None

    with caplog.at_level(logging.WARNING, "tuner"):
        broken, other = draw_section("best", "trial")
    assert (broken.name, broken.plot) == ("x-0", None)
    assert broken.caption == "It cannot be drawn: RuntimeError: no trial"
    assert "'Ours 0' cannot be drawn" in caplog.text
    assert (other.name, other.caption) == ("x-1", "Read this.")


@pytest.mark.parametrize(
    ("span_s", "unit"), [(10, "seconds"), (3600, "minutes"), (100_000, "hours")]
)
def test_times_are_read_in_the_unit_that_fits(span_s, unit):
    name, seconds = time_axis(span_s)
    assert name == unit
    assert 3 < span_s / seconds < 300
