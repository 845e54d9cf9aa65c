"""The last line of the user's own code behind an error."""

import json
import pickle
import sys
from importlib import import_module

import pytest

from tuner.trial.origin import keep_origin, origin_of

MODULE = """
import json

def step(text):
    x = (json
         .loads(text))

def own(f):
    f()
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of a package of the user's."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "train.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("my_package.train")
    for name in ("my_package.train", "my_package"):
        del sys.modules[name]


def raised(call, *arguments):
    try:
        call(*arguments)
    except BaseException as error:
        return error
    raise AssertionError


def test_it_is_the_users_last_line_however_deep_the_error_lies(mine):
    assert origin_of(raised(mine.step, "{")) == "my_package/train.py:5 in step: x = (json"


def test_it_is_none_where_no_line_of_the_users_was_run():
    assert origin_of(ValueError("never raised")) is None
    error = raised(json.loads, "{")
    error = error.with_traceback(error.__traceback__.tb_next)  # without this file
    assert origin_of(error) is None


def test_a_line_of_ours_is_no_users(mine):
    def ours():
        from tuner.spec.text import read_mapping

        read_mapping("[")

    error = raised(mine.own, ours)
    assert origin_of(error).endswith('test_origin.py:58 in ours: read_mapping("[")')


def test_code_without_a_file_is_named_without_its_line():
    exec(compile("def cell():\n    1 / 0\n", "<ipython-input-3>", "exec"), scope := {})
    assert origin_of(raised(scope["cell"])) == "<ipython-input-3>:2 in cell"
    exec(compile("def made():\n    1 / 0\n", "<string>", "exec"), scope)
    error = raised(scope["made"])
    assert origin_of(error).split(": ")[1] == "call(*arguments)"  # of this file


def test_a_long_line_is_cut(mine, tmp_path):
    path = tmp_path / "long.py"
    path.write_text(f"def f():\n    raise ValueError('{'x' * 500}')\n")
    exec(compile(path.read_text(), str(path), "exec"), scope := {})
    origin = origin_of(raised(scope["f"]))
    assert origin.startswith("long.py:2 in f: raise ValueError('xxx")
    assert len(origin) < 200
    assert origin.endswith("...")


class Stubborn(Exception):
    """Takes no attribute."""

    def __setattr__(self, name, value):
        raise TypeError(name)


def test_it_is_kept_on_the_way_to_another_process(mine):
    error = raised(mine.own, lambda: {}["lr"])
    origin = origin_of(error)
    keep_origin(error)
    assert origin_of(pickle.loads(pickle.dumps(error))) == origin
    other = RuntimeError("in its place")
    keep_origin(other, of=error)
    assert origin_of(other) == origin


def test_an_error_that_takes_no_attribute_is_sent_without():
    def fail():
        raise Stubborn("no")

    error = raised(fail)
    keep_origin(error)
    assert origin_of(pickle.loads(pickle.dumps(error))) is None


def test_of_what_is_raised_from_another_error_it_is_that_ones(mine):
    error = RuntimeError("never raised")
    error.__cause__ = raised(mine.step, "{")
    assert origin_of(error) == "my_package/train.py:5 in step: x = (json"
