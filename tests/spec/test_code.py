"""The code that a spec names, and what it is told of it without an import."""

import shutil
import sys

import pytest

from tuner.errors import UsageError
from tuner.spec.code import (
    ELSEWHERE,
    IMAGE_CLASSIFIER,
    NamedCode,
    find_code,
    find_module_file,
    is_standard,
    refuse_elsewhere,
)


def test_code_of_lists_all_but_shipped_code(snapshot):
    spec = {
        "trainable": "mine.train.Learner",
        "search": {"strategy": "mine.halving"},
        "scheduler": {"name": "mine.threshold"},
    }
    snapshot.compare_value(find_code(spec))
    assert find_code({"scheduler": "mine.x"}) == [NamedCode("scheduler.name", "mine.x")]
    for passed_over in (
        {
            "trainable": IMAGE_CLASSIFIER,
            "search": {"strategy": "grid"},
            "scheduler": "none",
        },
        {"trainable": "tuner.shipped.experiments.own_learner:Learner"},
        {"trainable": "os:system", "scheduler": "logging.config"},
        {"trainable": 1, "search": [], "scheduler": None, "notify": 3},
    ):
        assert find_code(passed_over) == []
    named = find_code(
        {"notify": ["${URL}", "https://evil/${AWS_KEY}", "https://x/s3cret", 3]}
    )
    assert [code.path for code in named] == ["${URL}", "https://evil/${AWS_KEY}"]


def test_only_trials_that_run_elsewhere_are_refused():
    refuse_elsewhere(IMAGE_CLASSIFIER)
    with pytest.raises(UsageError, match=ELSEWHERE):
        refuse_elsewhere(ELSEWHERE)


@pytest.mark.parametrize(
    "dataset", ["digits", "folder:photos", "hf:mnist", "decoded:x", 3, "a:"]
)
def test_code_of_ignores_data_folders(dataset):
    assert find_code({"training": {"dataset": dataset}}) == []


def test_code_of_lists_data_sets_of_every_section(snapshot):
    search = {
        "space": {"dataset": "choice(['digits', 'a:load'])"},
        "configs": [{"dataset": "b:load"}, {"dataset": "a:load", "model": "c:Net"}],
        "points_to_evaluate": [{"dataset": {"grid_search": ["c:Net"]}}],
    }
    snapshot.compare_value(
        find_code({"training": {"dataset": "d:load"}, "search": search})
    )


def test_code_of_lists_custom_networks(snapshot):
    search = {
        "space": {"model": "choice(['cnn', 'a.b:Net', 'timm:resnet18', 'c:D'])"},
        "configs": [{"model": "e:F"}, {"model": "a.b:Net"}, 3],
        "points_to_evaluate": [{"model": {"grid_search": ["g:H", "os:system"]}}],
    }
    spec = {"training": {"model": "i:J"}, "search": search}
    named = find_code(spec)
    snapshot.compare_value(named)
    for trainable in (
        IMAGE_CLASSIFIER,
        IMAGE_CLASSIFIER.replace(":", "."),
        "tuner.other:Name",
    ):
        assert find_code({**spec, "trainable": trainable})[: len(named)] == named
    custom = {**spec, "trainable": "mine:Learner"}  # in which `model` may mean anything
    assert find_code(custom) == [NamedCode("trainable", "mine:Learner")]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose import is seen."""
    folder = tmp_path / "a_package/inner"
    folder.mkdir(parents=True)
    for path in (
        folder.parent / "__init__.py",
        folder / "__init__.py",
        folder / "code.py",
    ):
        path.write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_code_file_is_located_without_import(package):
    assert find_module_file("a_package.inner.code") == package / "code.py"
    assert find_module_file("a_package.inner") == package / "__init__.py"
    for nowhere in ("a_package.outer", "a_package.inner.code.x", "nowhere", ""):
        assert find_module_file(nowhere) is None
    assert "a_package" not in sys.modules


def test_remember_code_holds_for_its_path_and_file(package, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code = NamedCode("trainable", "a_package.inner.code:train")
    assert not code.is_remembered
    code.remember()
    assert NamedCode("training.model", code.path).is_remembered
    assert not NamedCode("trainable", "a_package.inner.code:other").is_remembered
    copy = shutil.copytree(tmp_path / "a_package", tmp_path / "elsewhere/a_package")
    monkeypatch.syspath_prepend(str(copy.parent))
    assert not code.is_remembered  # the same name now means another file


def test_remember_command_holds_for_its_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (command,) = find_code({"trainable": {"command": ["make", "train"]}})
    (target,) = find_code({"notify": "https://${HOST}/"})
    for code in (command, target):
        code.remember()
        assert code.is_remembered
    monkeypatch.chdir("/")
    assert not command.is_remembered


def test_standard_library_differs_from_a_file_of_its_name(tmp_path, monkeypatch):
    for module in (
        "logging.config",
        "os",
        "sys",
        "builtins",
        "subprocess",
        "antigravity",
    ):
        assert is_standard(module), module
    assert not any(map(is_standard, ("yaml", "tuner", "__main__", "nowhere", "")))
    assert "antigravity" not in sys.modules
    (tmp_path / "antigravity.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_standard("antigravity")
