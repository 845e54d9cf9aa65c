"""YAML that says what JSON can; tests/test_foreign_specs.py has what is refused in a spec."""

from __future__ import annotations

import pytest

from tuner.spec import plain_yaml


@pytest.mark.parametrize("text", ["1e-3", "+.5E2", "-3.", "7."])
def test_a_float_is_read_as_python_reads_it(text: str) -> None:
    assert plain_yaml.load(f"[{text}]") == [float(text)]


@pytest.mark.parametrize("text", ["1e", "1.2.3", "2001-01-01", "e5"])
def test_what_only_begins_as_a_float_is_text(text: str) -> None:
    assert plain_yaml.load(f"{{a: {text}}}") == {"a": text}


def test_what_json_writes_as_a_pair_of_surrogates_is_one_character() -> None:
    assert plain_yaml.load('{"\\ud83d\\ude00": "a\\ud800\\udc00"}') == {"\U0001f600": "a\U00010000"}
    assert plain_yaml.load("\U0001f600") == "\U0001f600"
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        plain_yaml.load('["\\ud83d"]')


def test_a_number_may_be_long_but_not_longer() -> None:
    digits = "9" * plain_yaml.LONGEST_NUMBER
    assert plain_yaml.load(digits) == int(digits)
    with pytest.raises(ValueError, match="it has a number of 1,001 characters"):
        plain_yaml.load(f"{digits}9")
