import logging
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
)
from tuner.reporting.report import Report


@pytest.fixture
def declared(monkeypatch, tmp_path):
    """Only the figures of the test are declared."""
    draw_section("best", Report(odd(tmp_path / "x", "no_trial")))  # imports the others
    monkeypatch.setattr(_figure, "_DECLARED", [])


def test_every_figure_is_in_one_section_of_the_page(tmp_path):
    results = [search(tmp_path / name, 30) for name in "ab"]
    next(iter(results[0].trials.values())).forecasts = {1: {}}  # as a scheduler that predicts
    subjects = dict.fromkeys(get_args(Section), Report(results[0]))
    subjects["comparison"] = Comparison(results)
    shown = {s: [figure.name for figure in draw_section(s, of)] for s, of in subjects.items()}
    slices = [f"slice-{i}" for i in range(3)]
    contours = [f"contour-{i}" for i in range(3)]
    assert shown == {
        "best": ["history"],
        "hyperparameters": ["importance", "parallel", *slices, *contours],
        "stopping": ["curves", "rungs", "forecasts"],
        "comparison": ["epochs"],
    }


@pytest.mark.usefixtures("declared")
def test_figure_is_styled_and_loses_its_title():
    @figure("Ours", section="best", order=1)
    def draw(subject):
        return f"Read {subject}.", go.Figure(layout={"title": "Optuna's", "height": 500})

    (drawn,) = draw_section("best", "this")
    assert (drawn.name, drawn.title, drawn.caption) == ("draw", "Ours", "Read this.")
    assert drawn.plot.layout.title.text == ""
    assert drawn.plot.layout.height == 500
    assert drawn.plot.layout.colorway == COLOURS
    assert draw_section("stopping", "this") == []


@pytest.mark.usefixtures("declared")
def test_figure_that_fails_leaves_the_others(caplog):
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
