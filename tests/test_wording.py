from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from tuner.wording import (
    clean_text,
    format_config,
    format_duration,
    format_mean,
    format_number,
    format_time,
    shorten,
)

CONFIG = {"lr": 0.03125, "width": 32, "optimizer": "sgd"}


def test_number_is_short():
    shown = " ".join(map(format_number, (0.99166, 1e-9, 64, True, None, "a\nb")))
    assert shown == "0.9917 1e-09 64 True None a b"


def test_moment_is_to_the_minute():
    assert (
        format_time(datetime(2026, 11, 22, 7, 5, 59).timestamp()) == "2026-11-22 07:05"
    )


def test_with_error_shows_error_if_known():
    assert format_mean(0.14386, 0.00188) == "0.1439 +- 0.0019"
    assert format_mean(0.5, None) == "0.5"


def test_duration_has_two_largest_units():
    shown = " ".join(map(format_duration, (-1, 0, 59.6, 3599.6, 90061)))
    assert shown == "0s 0s 1m 00s 1h 00m 25h 01m"


def test_config_line_is_cut_at_whole_pairs():
    assert format_config(CONFIG, 80) == "lr=0.03125 width=32 optimizer=sgd"
    assert format_config(CONFIG, 30) == "lr=0.03125 width=32 ..."
    assert format_config(CONFIG, 5) == "..."
    assert format_config({}, 5) == ""


@given(
    config=st.dictionaries(st.text(), st.floats() | st.text() | st.integers()),
    width=st.integers(0, 100),
)
def test_config_line_fits_its_width(config, width):
    assert len(format_config(config, width)) <= width


@given(text=st.text(), width=st.integers(3, 50))
def test_shorten_gives_one_printable_line(text, width):
    line = shorten(text, width)
    assert len(line) <= width
    assert line.isprintable()


def test_printable_replaces_control_characters():
    assert clean_text("\x1b[31mred\x07\u202e") == " [31mred  "
