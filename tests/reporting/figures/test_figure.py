import logging

import plotly.graph_objects as go
from stories import search

from tuner.reporting.figures import draw_section
from tuner.reporting.figures.figure import COLOURS, drawn
from tuner.reporting.report import Report


def test_few_trials_have_no_figure_of_the_hyperparameters(tmp_path):
    assert draw_section("hyperparameters", Report(search(tmp_path / "x", 10))) == []  # one failed
    assert draw_section("hyperparameters", Report(search(tmp_path / "y", 11)))


def test_drawn_is_styled_and_loses_its_title():
    plot = go.Figure(layout={"title": "Optuna's", "height": 500})
    figure = drawn("draw", "Ours", lambda subject: (f"Read {subject}.", plot), "this")
    assert (figure.name, figure.title, figure.caption) == ("draw", "Ours", "Read this.")
    assert figure.plot.layout.title.text == ""
    assert figure.plot.layout.height == 500
    assert figure.plot.layout.colorway == COLOURS


def test_drawn_says_why_a_figure_fails(caplog):
    def draw(subject):
        raise RuntimeError(f"no {subject}")

    with caplog.at_level(logging.WARNING, "tuner"):
        broken = drawn("x", "Ours", draw, "trial")
    assert broken.plot is None
    assert broken.caption == "It cannot be drawn: RuntimeError: no trial"
    assert "'Ours' cannot be drawn" in caplog.text
