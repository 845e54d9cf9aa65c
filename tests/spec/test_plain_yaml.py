"""YAML that says what JSON can; tests/test_foreign_specs.py has what is refused in a spec."""

from __future__ import annotations

import pytest

from tuner.spec import plain_yaml


@pytest.mark.parametrize("text", ["1e-3", "+.5E2", "-3.", "7."])
def test_load_reads_floats_as_python_does(text: str) -> None:
    assert plain_yaml.load(f"[{text}]") == [float(text)]


@pytest.mark.parametrize("text", ["1e", "1.2.3", "2001-01-01", "e5"])
def test_load_partial_float_is_text(text: str) -> None:
    assert plain_yaml.load(f"{{a: {text}}}") == {"a": text}


def test_load_joins_surrogate_pairs() -> None:
    assert plain_yaml.load('{"\\ud83d\\ude00": "a\\ud800\\udc00"}') == {"\U0001f600": "a\U00010000"}
    assert plain_yaml.load("\U0001f600") == "\U0001f600"
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        plain_yaml.load('["\\ud83d"]')


def test_load_limits_length_of_numbers() -> None:
    digits = "9" * plain_yaml.LONGEST_NUMBER
    assert plain_yaml.load(digits) == int(digits)
    with pytest.raises(ValueError, match="it has a number of 1,001 characters"):
        plain_yaml.load(f"{digits}9")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\nb: 2\na: 3", "lines 1 and 3"),
        ("x:\n  - a: 1\n    a: 1", "lines 2 and 3"),
        ('{"a": 1,\n "a": 2}', "lines 1 and 2"),
        ("{a: 1, 'a': 2}", "line 1"),
    ],
)
def test_load_duplicate_key_names_the_key_and_both_lines(text: str, lines: str) -> None:
    with pytest.raises(ValueError, match=f"it has the key 'a' twice, in {lines}: keep one"):
        plain_yaml.load(text)


def test_load_syntax_error_names_the_line() -> None:
    with pytest.raises(ValueError, match=r"^line 2: found character"):
        plain_yaml.load("a:\n\tb: 1")
