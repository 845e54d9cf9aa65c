import json
import pickle
import sys
from importlib import import_module

import pytest

from tuner.trial.origins import find_origin, keep_origin

MODULE = """
import json

def step(text):
    x = (json
         .loads(text))

def own(f):
    f()
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module of a package of the user's."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package/train.py").write_text(MODULE)
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


def test_origin_of_without_user_line_is_none():
    assert find_origin(ValueError("never raised")) is None
    error = raised(json.loads, "{")
    error = error.with_traceback(error.__traceback__.tb_next)  # without this file
    assert find_origin(error) is None


def test_origin_of_code_without_a_file_has_no_source():
    exec(compile("def cell():\n    1 / 0\n", "<ipython-input-3>", "exec"), scope := {})
    assert find_origin(raised(scope["cell"])) == "<ipython-input-3>:2 in cell"
    exec(compile("def made():\n    1 / 0\n", "<string>", "exec"), scope)
    error = raised(scope["made"])
    assert find_origin(error).split(": ")[1] == "call(*arguments)"  # of this file


def test_keep_origin_survives_pickling(user_module):
    error = raised(user_module.own, lambda: {}["lr"])
    origin = find_origin(error)
    keep_origin(error)
    assert find_origin(pickle.loads(pickle.dumps(error))) == origin
    other = RuntimeError("in its place")
    keep_origin(other, of=error)
    assert find_origin(other) == origin


def test_origin_of_chained_error_is_that_of_its_cause(user_module):
    error = RuntimeError("never raised")
    error.__cause__ = raised(user_module.step, "{")
    assert find_origin(error) == "train.py:5 in step: x = (json"
