"""What is plain and of a sane size passes; what is not is named."""

import pytest
from hypothesis import strategies as st

from tuner.spec.plain_values import (
    DEEPEST,
    MOST,
    find_value,
    find_value_fault,
    parse_json,
    resolve_value,
)

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


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
    assert find_value_fault(value) == fault


@pytest.mark.parametrize("many", ["[" * 99, "[[],", "{},", "1,", '"a":', '"",['])
def test_parse_json_rejects_too_many_values(many):
    with pytest.raises(ValueError, match="it holds more than 10 values"):
        parse_json(f"[{many * 50}]".encode(), most=10)


def test_value_at_follows_a_dotted_path():
    config = {"a": {"b": 1}, "c": 2}
    assert (resolve_value(config, "a.b"), resolve_value(config, "c")) == (1, 2)
    for path in ("a.x", "c.b", "x"):
        assert find_value(config, path) is None
        with pytest.raises(KeyError):
            resolve_value(config, path)
