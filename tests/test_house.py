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


def test_imports_run_up_by_the_table():
    down = {"cli": {"trial"}, "trial": {"spec"}, "spec": {"errors"}, "errors": set()}
    assert house.imports_up(down) == 0
    assert house.imports_up({**down, "errors": {"spec"}, "spec": {"trial", "cli"}}) == 3
    assert house.imports_up({**down, "flat": {"errors"}}) == "-"


def test_a_checkout_is_counted(tmp_path):
    for name, text in {
        "tuner/one.py": SOURCE,
        "tuner/two.py": "from tuner import one\nimport tuner.one\n",
        "tests/test_x.py": "from tuner.one import _x\n\ndef test_x(): assert _x._y\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert house.units(tmp_path) == {"one": set(), "two": {"one"}}
    rows = house.figures(tmp_path)
    assert (rows["tuner: statements"], rows["modules"], rows["tests"]) == (11, 2, 1)
    assert rows["others' private attributes in tests"] == 2
