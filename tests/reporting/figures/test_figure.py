import logging

import pytest
from stories import search

from tuner.reporting.figures import draw_section
from tuner.reporting.figures.data import FigureData
from tuner.reporting.figures.figure import (
    COLOURS,
    build_count_axis,
    build_figure,
    build_value_axis,
    escape_text,
    round_values,
    scale_time,
)


def test_by_chooses_one_order_of_the_best_so_far(tmp_path):
    data = FigureData(search(tmp_path / "x", 12))
    assert [figure.name for figure in draw_section("best", data, by="time")] == [
        "history"
    ]
    names = [figure.name for figure in draw_section("best", data)]
    assert names == ["history", "history-epochs", "history-time"]


def test_drawn_is_styled():
    plot = {"data": [], "layout": {"height": 500}}
    figure = build_figure(
        "draw", "Ours", lambda subject: (f"Read {subject}.", plot), "this"
    )
    assert (figure.name, figure.title, figure.caption) == ("draw", "Ours", "Read this.")
    assert figure.plot["layout"]["height"] == 500
    assert figure.plot["layout"]["colorway"] == [*COLOURS]


def test_texts_and_numbers_are_what_plotly_shows_as_they_are():
    assert escape_text("<b>&amp;\x1b") == "&lt;b&gt;&amp;amp;" + escape_text("\x1b")
    assert round_values([1 / 3, float("nan"), float("inf"), 5]) == [
        0.333333,
        None,
        None,
        5,
    ]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 51], "log"), ([1, 49], "linear"), ([-1, 99], "linear"), ([], "linear")],
)
def test_value_axis_is_logarithmic_over_decades(values, kind):
    assert build_value_axis("x", values)["type"] == kind


def test_count_axis_has_whole_numbers():
    assert build_count_axis("n", most=4)["dtick"] == 1
    assert "dtick" not in build_count_axis("n", most=40)


def test_drawn_says_why_a_figure_fails(caplog):
    def draw(subject):
        raise RuntimeError(f"no {subject}")

    with caplog.at_level(logging.WARNING, "tuner"):
        broken = build_figure("x", "Ours", draw, "trial")
    assert broken.plot is None
    assert broken.caption == "It cannot be drawn: RuntimeError: no trial"
    assert "'Ours' cannot be drawn" in caplog.text


@pytest.mark.parametrize(
    ("most", "unit", "title"),
    [(0, 1, "seconds"), (119, 1, "seconds"), (7199, 60, "minutes")],
)
def test_times_have_a_unit_that_is_read_well(most, unit, title):
    assert scale_time(most)[0] == unit
    assert scale_time(most)[1]["title"]["text"] == f"{title} of searching"
    assert scale_time(7200)[0] == 3600
