import json
import logging

import pytest
from stories import ODD, TAGS, odd, search

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

SECTIONS = ("best", "hyperparameters", "stopping")


def test_few_trials_have_a_reason_in_place_of_figures(tmp_path):
    few, parallel = draw_section(
        "hyperparameters", FigureData(search(tmp_path / "x", 10))
    )
    assert few.plot is None  # one of them failed
    assert few.caption.endswith("it takes 10 trials with a value, and there are 9.")
    assert parallel.plot is not None
    assert (
        len(draw_section("hyperparameters", FigureData(search(tmp_path / "y", 11)))) > 2
    )
    (nothing,) = draw_section(
        "hyperparameters", FigureData(odd(tmp_path / "z", "no_trial"))
    )
    assert nothing.plot is None


@pytest.mark.parametrize("kind", ODD)
def test_figures_of_odd_experiments_are_plain_values(tmp_path, kind, caplog):
    data = FigureData(odd(tmp_path / "x", kind))
    figures = [figure for section in SECTIONS for figure in draw_section(section, data)]
    assert not caplog.messages
    plots = [figure.plot for figure in figures if figure.plot]
    for plot in plots:
        # Which names and values as they are, and no one sees
        plot["layout"].pop("meta", None)
    text = json.dumps(plots, allow_nan=False)
    assert TAGS not in text
    assert "<i>" not in text
    assert all(figure.caption for figure in figures)


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
