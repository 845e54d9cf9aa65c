import pytest

from tuner.errors import UsageError
from tuner.experiment.results.rows import select_rows

ROWS = [
    {"name": "a", "loss": 0.5, "tags": ["x"], "config": {"lr": 0.1, "o": {"m": 2}}},
    {"name": "b", "loss": None, "tags": [], "config": {"lr": "auto"}},
    {"name": "c", "loss": 0.25, "tags": ["x", "y"]},
]


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (None, [0, 1, 2]),
        ("loss < 0.4", [2]),
        ("loss == None", [1]),
        ("'x' in tags and not ('y' in tags)", [0]),
        # What cannot be compared, or is not there, does not match
        ("config.lr > 0", [0]),
        ("config.o.m == 2 or name == 'c'", [0, 2]),
        ("name >= 'b'", [1, 2]),
    ],
)
def test_arranged_filters_by_where(where, numbers):
    assert select_rows(ROWS, where=where) == numbers


@pytest.mark.parametrize(
    "where",
    ["los < 1", "loss <", "loss = 1", "config.lrr < 1", "__import__('os')"],
)
def test_arranged_invalid_where_is_refused(where, snapshot):
    with snapshot.raises(UsageError):
        select_rows(ROWS, where=where)
    assert select_rows([], where="los < 1") == []


def test_arranged_sorts_missing_values_last(snapshot):
    assert select_rows(ROWS, sort="loss") == [2, 0, 1]
    assert select_rows(ROWS, sort="loss", reverse=True) == [0, 2, 1]
    assert select_rows(ROWS, sort="config.lr") == [0, 1, 2]  # numbers before text
    assert select_rows(ROWS, sort="tags") == [1, 0, 2]
    assert select_rows(ROWS, where="name == 'c'", sort="config") == [2]
    with snapshot.raises(UsageError):
        select_rows(ROWS, where="name == 'c'", sort="lr")


def test_arranged_reads_names_with_dots_and_slashes():
    rows = [{"val.ms": n, "val/acc": n, "config": {"a.b": n}} for n in (3, 1, 2)]
    assert select_rows(rows, where="val.ms > 1 and value('val/acc') < 3") == [2]
    for name in ("val.ms", "val/acc", "config.a.b"):
        assert select_rows(rows, sort=name) == [1, 2, 0]
