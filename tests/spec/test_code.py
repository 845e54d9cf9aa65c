"""The code that a spec names, and what it is told of it without an import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tuner.spec.code import IMAGE_CLASSIFIER, NamedCode, code_named, file_of, is_standard


def test_each_dotted_path_of_a_spec_is_named_and_what_ships_is_not() -> None:
    spec = {
        "trainable": "mine.train.Learner",
        "search": {"strategy": "mine.halving"},
        "scheduler": {"name": "mine.threshold"},
    }
    assert code_named(spec) == [
        NamedCode("trainable", "mine.train:Learner"),
        NamedCode("search.strategy", "mine.halving"),
        NamedCode("scheduler.name", "mine.threshold"),
    ]
    assert code_named({"scheduler": "mine.x"}) == [NamedCode("scheduler.name", "mine.x")]
    shipped = {"trainable": IMAGE_CLASSIFIER, "search": {"strategy": "grid"}, "scheduler": "none"}
    assert code_named(shipped) == []
    assert code_named({"trainable": "tuner.shipped.experiments.own_learner:Learner"}) == []
    assert code_named({"trainable": "os:system", "scheduler": "logging.config"}) == []
    assert code_named({"trainable": 1, "search": [], "scheduler": None}) == []


@pytest.mark.parametrize("dataset", ["digits", "folder:photos", "hf:mnist", "decoded:x", 3, "a:"])
def test_a_data_set_that_is_no_function_names_no_code(dataset: object) -> None:
    assert code_named({"training": {"dataset": dataset}}) == []


def test_a_function_that_returns_images_is_code() -> None:
    spec = {"trainable": IMAGE_CLASSIFIER, "training": {"dataset": "their.data:load"}}
    assert code_named(spec) == [NamedCode("training.dataset", "their.data:load")]
    assert code_named({"training": None}) == []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose import is seen."""
    folder = tmp_path / "a_package" / "inner"
    folder.mkdir(parents=True)
    for path in (folder.parent / "__init__.py", folder / "__init__.py", folder / "code.py"):
        path.write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_its_file_is_found_and_nothing_imported(package: Path) -> None:
    assert file_of("a_package.inner.code") == package / "code.py"
    assert file_of("a_package.inner") == package / "__init__.py"
    for nowhere in ("a_package.outer", "a_package.inner.code.x", "nowhere", "", "__main__"):
        assert file_of(nowhere) is None
    assert "a_package" not in sys.modules


def test_what_lies_below_a_folder_is_no_installed_package(package: Path) -> None:
    code = NamedCode("trainable", "a_package.inner.code:train")
    assert code.is_below(package)
    assert not code.is_below(package / "deeper")
    assert not NamedCode("trainable", "yaml:unsafe_load").is_below(Path("/"))
    assert not NamedCode("trainable", "nowhere:x").is_below(Path("/"))


def test_what_python_brings_is_standard_and_a_file_of_that_name_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("logging.config", "os", "sys", "builtins", "subprocess", "antigravity"):
        assert is_standard(module), module
    assert not any(map(is_standard, ("yaml", "tuner", "__main__", "nowhere", "")))
    assert "antigravity" not in sys.modules
    (tmp_path / "antigravity.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_standard("antigravity")
