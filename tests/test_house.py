"""What `python -m benchmarks.house` counts."""

import ast

from benchmarks import house

SOURCE = """"A module."
import os

# a comment


def read_file(x):
    a, b = 1, x
    return a

@property
def size_of(x):
    return x.a

def share_of(x):
    return x
"""


def count(source, counted):
    counts = counted(ast.parse(source))
    return counts if isinstance(counts, int) else list(counts)


def test_content_counts_expressions_and_names_of_functions(tmp_path):
    (tmp_path / "a.py").write_text(SOURCE)
    assert house.content(tmp_path) == {
        "expressions": 12,
        "statements": 9,
        "expressions a line": 1.2,
        "parallel assignments": 111.1,
        "without a verb first, %": 50.0,
        "with a preposition last, %": 50.0,
    }


def test_mocks_count_replacing_calls():
    replacing = (
        *(
            "monkeypatch.setattr(a, 'b', 1)",
            "patch.setitem(d, 'k', 1)",
            "mocker.spy(a, 'b')",
        ),
        *("patch('a.b')", "mock.patch.object(a, 'b')", "m.delattr(a, 'b')"),
    )
    assert [count(source, house.mocks) for source in replacing] == [1] * 6
    assert (
        count(
            "monkeypatch.setenv('A', 'b'); monkeypatch.chdir(a); dispatch()",
            house.mocks,
        )
        == 0
    )


def test_private_uses_exclude_self_and_class():
    allowed = "self._a; cls._b; super()._c; x.__d__; x.e; from f import __version__"
    assert count(allowed, house.private_uses) == []
    others = "from f import _g; a.b._c._d"
    assert count(others, house.private_uses) == ["f._g", "a.b._c._d", "a.b._c"]
    modules = "from tuner.a._b import c; from tuner.a import _b; from other._a import b"
    assert count(modules, house.private_modules) == 1


def test_all_units_of_a_knot_are_in_cycles():
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"b"}, "d": {"a"}, "e": set()}
    assert house.units_in_cycles(graph) == 3
