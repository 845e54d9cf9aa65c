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


def test_networks_of_the_users_own_are_code_wherever_a_spec_names_one() -> None:
    search = {
        "space": {"model": "choice(['cnn', 'a.b:Net', 'timm:resnet18', 'c:D'])"},
        "configs": [{"model": "e:F"}, {"model": "a.b:Net"}, 3],
        "points_to_evaluate": [{"model": {"grid_search": ["g:H", "os:system"]}}],
    }
    spec = {"training": {"model": "i:J"}, "search": search}
    named = [
        NamedCode("training.model", "i:J"),
        NamedCode("search.space.model", "a.b:Net"),
        NamedCode("search.space.model", "c:D"),
        NamedCode("search.configs.0.model", "e:F"),
        NamedCode("search.points_to_evaluate.0.model", "g:H"),
    ]
    assert code_named(spec) == named
    classifiers = (IMAGE_CLASSIFIER, IMAGE_CLASSIFIER.replace(":", "."), "tuner.other:Name")
    for trainable in classifiers:
        assert code_named({**spec, "trainable": trainable})[:5] == named
    own = {**spec, "trainable": "mine:Learner"}  # in which `model` may mean anything
    assert code_named(own) == [NamedCode("trainable", "mine:Learner")]
    for bent in ({"training": []}, {"search": []}, {"search": {"configs": 3, "space": "x"}}):
        assert code_named(bent) == []
    for model in (3, None, ["a:B"], "choice([", "choice(3)", {"a": "b:C"}, "cnn"):
        assert code_named({"training": {"model": model}}) == []


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
