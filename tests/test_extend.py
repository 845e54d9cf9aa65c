"""What extensions import from `tuner.extend`: it is there, described, and costs nothing before."""

import inspect
import re

import pytest
from fresh import ran

from tuner import extend


@pytest.mark.parametrize("name", extend.__all__)
def test_exported_name_exists_with_docstring(name):
    value = getattr(extend, name)
    assert value.__name__ == name
    assert inspect.getdoc(value)
    assert re.search(rf"\b{name}\b", extend.__doc__)


def test_dir_equals_exported_names():
    assert dir(extend) == sorted(extend.__all__)
    with pytest.raises(AttributeError, match=r"has no attribute .nope."):
        _ = extend.nope


def test_a_declaration_is_imported_without_search_and_ray():
    loaded = ran("from tuner.extend import Declaration, Fault, Settings").modules
    assert not loaded & {"ray", "torch", "numpy", "tuner.search"}
