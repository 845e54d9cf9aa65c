import logging

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.reporting.figures.figure import COLOURS, drawn, evenly, leading, text, time_axis


def test_a_figure_has_our_look_and_no_title_of_its_own():
    plot = go.Figure(layout={"title": "Optuna's", "height": 500})
    figure = drawn("x", "Ours", lambda: ("Read this.", plot))
    assert (figure.name, figure.title, figure.says) == ("x", "Ours", "Read this.")
    assert figure.plot.layout.title.text == ""
    assert figure.plot.layout.height == 500
    assert figure.plot.layout.colorway == COLOURS


def test_one_that_cannot_be_drawn_says_so_and_costs_only_itself(caplog):
    def draw(of):
        raise RuntimeError(f"no {of}")

    with caplog.at_level(logging.WARNING, "tuner"):
        figure = drawn("x", "Ours", draw, "trial")
    assert figure.plot is None
    assert figure.says == "It cannot be drawn: RuntimeError: no trial"
    assert "'Ours' cannot be drawn" in caplog.text


def test_text_shows_as_it_is():
    assert text("<b>\x1b & 1") == "&lt;b&gt;  &amp; 1"


@pytest.mark.parametrize(
    ("span_s", "unit"), [(10, "seconds"), (3600, "minutes"), (100_000, "hours")]
)
def test_times_are_read_in_the_unit_that_fits(span_s, unit):
    name, seconds = time_axis(span_s)
    assert name == unit
    assert 3 < span_s / seconds < 300


@given(st.lists(st.integers(), min_size=1, unique=True), st.integers(1, 20))
def test_thinning_keeps_order_ends_and_the_best(items, most):
    kept = evenly(items, most)
    assert len(kept) == min(most, len(items))
    assert kept == [item for item in items if item in kept]
    assert kept[0] == items[0]
    best = leading(items, most)
    assert len(best) == len(kept)
    assert best[: most // 2] == items[: most // 2]
