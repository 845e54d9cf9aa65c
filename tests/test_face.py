"""What users import from `tuner`: every name is there, described, and costs nothing beforehand."""

import inspect
import subprocess
import sys

import pytest
from synthetic import ended

import tuner
from tuner import errors


@pytest.mark.parametrize("name", tuner.__all__)
def test_exported_name_exists_with_docstring(name):
    value = getattr(tuner, name)
    assert value.__name__ == name
    assert inspect.getdoc(value)
    assert name in (tuner.__doc__ or "")


def test_dir_equals_exported_names():
    assert dir(tuner) == sorted(tuner.__all__)
    with pytest.raises(AttributeError, match="module 'tuner' has no attribute 'nope'"):
        _ = tuner.nope


def test_all_errors_are_exported():
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.TunerError)
    }
    assert kinds <= set(tuner.__all__)


def test_import_loads_only_standard_library():
    code = "import sys; before = set(sys.modules); import tuner; print(set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    imported = eval(done.stdout)
    assert {name.partition(".")[0] for name in imported} <= {
        "tuner",
        *sys.stdlib_module_names,
    }
    assert not [name for name in imported if name.startswith("tuner.")]


def test_compare_takes_names_folders_and_results(snapshot, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path))
    for name in ("a", "b"):
        ended(tmp_path / name, [0.5, 0.6])
    results = tuner.load_results("a")
    by_names = tuner.compare("a", "b").as_dict()
    assert tuner.compare(results, tmp_path / "b").as_dict() == by_names
    with snapshot.raises(tuner.UsageError):
        tuner.compare("a", "c", storage=tmp_path)
