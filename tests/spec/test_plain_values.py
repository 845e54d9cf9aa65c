"""What is plain and of a sane size passes; what is not is named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.plain_values import DEEPEST, MOST, fault_of_json, fault_of_values, flat

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
def test_fault_of_values_accepts_json(value):
    assert fault_of_json(json.dumps(value)) is None
    assert fault_of_values(value) is None
    assert fault_of_values(json.loads(json.dumps(value))) is None


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def shared(times):
    value = [1] * 10
    for _ in range(times):
        value = [value] * 10
    return value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (nested(DEEPEST), None),
        (nested(DEEPEST + 1), "is nested deeper than 30 levels"),
        ([{}] * (MOST - 1), None),
        ([{}] * MOST, "holds more than 200,000 values"),
        (shared(20), "holds more than 200,000 values"),
        ({"a": 10**300, "b": -(10**300)}, None),
        ({"a": [10**301]}, "holds a number beyond 1e+300"),
        ({"a": b"x"}, "holds a bytes, which JSON has not"),
        ({(1, 2): 3}, "holds a tuple, which JSON has not"),
    ],
)
def test_fault_of_values_names_each_limit(value, fault):
    assert fault_of_values(value) == fault


def test_flat_joins_nested_names():
    config = {"a": {"b": {"c": 1}, "e": {}}, "d": [1, 2]}
    assert flat(config) == {"a/b/c": 1, "d": [1, 2]}
    assert flat(config, ".") == {"a.b.c": 1, "d": [1, 2]}


@given(plain, st.integers(1, 9))
def test_fault_of_json_accepts_few_values(value, most):
    if fault_of_values(value, most=most) is None:
        assert fault_of_json(json.dumps(value), most=most) is None


@pytest.mark.parametrize("many", ["[" * 99, "[[],", "{},", "1,", '"a":', '"",[', '"[[[",1,'])
def test_fault_of_json_rejects_too_many_values(many):
    assert fault_of_json(f"[{many * 50}]", most=10) == "holds more than 10 values"


@pytest.mark.parametrize("text", ['"[[[[', '"\\"[[[[', "[,:{" * 9, "\\\\"])
def test_fault_of_json_ignores_marks_in_strings(text):
    assert fault_of_json(json.dumps([text * 50]), most=10) is None
    assert fault_of_json(f'"{"[" * 500}', most=10) is None  # one that is never closed
