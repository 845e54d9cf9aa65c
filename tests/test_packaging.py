"""The wheel: one top-level name, all that ships, and nothing beside the user that shadows it."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tuner", "experiments", "search_spaces")
SHADOWS = (
    "search_spaces/random_search.py",
    "experiments/digits_grid.py",
    "tuner_x/__init__.py",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the source, for a build leaves files in its folder."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in (*FOLDERS, "examples"):
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    build = "import setuptools.build_meta as b; b.build_wheel('dist')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=source, check=True, capture_output=True
    )
    [wheel] = (source / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture
def beside(tmp_path):
    """A working directory with modules of the user's that are named like some that ship."""
    for name in SHADOWS:
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text("raise RuntimeError('of the user')\n")
    return tmp_path


def tuner(directory, installed, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    code = (
        f"import sys; sys.path.remove(''); sys.argv = {['tuner', *arguments]!r}; "
        + ("import tuner.cli.main as c; print(c.__file__, file=sys.stderr); c.main()")
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True
    )


def test_a_wheel_has_one_top_level_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if ".dist-info/" not in name]
        [top_level] = [
            n for n in archive.namelist() if n.endswith(".dist-info/top_level.txt")
        ]
        assert archive.read(top_level).split() == [b"tuner"]
    assert {name.partition("/")[0] for name in files} == {"tuner"}


def test_a_wheel_has_every_file_of_the_source(wheel):
    moved = {name: "" if name == "tuner" else "tuner/shipped/" for name in FOLDERS}
    source = {
        f"{moved[folder]}{file.relative_to(ROOT).as_posix()}"
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }
    assert source <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("source", ["checkout", "wheel"])
def test_files_of_user_do_not_shadow_package(source, installed, beside):
    package_dir = ROOT if source == "checkout" else installed
    done = tuner(beside, package_dir, "validate", "digits")
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{package_dir / 'tuner/cli/main.py'}\n"
    assert done.stdout.startswith("digits would run")
    # The user's own comes first
    users_own = tuner(beside, package_dir, "validate", "digits_grid")
    assert users_own.returncode == 2
    assert "line 1: RuntimeError: of the user" in users_own.stderr


@pytest.mark.parametrize("experiment", ["experiments/digits.py", "digits"])
def test_copied_experiment_overrides_shipped_experiment(
    experiment, installed, tmp_path
):
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    done = tuner(tmp_path, installed, "validate", experiment)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'experiments/digits.py'}" in done.stdout


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
PINNED = {
    canonicalize_name(name): version
    for name, version in (
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()
    )
}


def needed(texts, extras=frozenset()):
    """What these requirements come to with all that they need, as far as it is installed."""
    seen: set[Requirement] = set()
    waiting = [(text, extras) for text in texts]
    while waiting:
        text, requested = waiting.pop()
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not any(
            marker.evaluate({"extra": name}) for name in requested or {""}
        ):
            continue
        if requirement not in seen:
            seen.add(requirement)
            if requirement.name == "torch":  # what it brings depends on its build
                continue
            try:
                below = requires(requirement.name) or []
            except PackageNotFoundError:
                continue
            waiting += [(inner, frozenset(requirement.extras)) for inner in below]
    return seen


@pytest.mark.parametrize("extra", EXTRAS)
def test_constraints_pin_all_that_an_extra_installs(extra):
    names = {canonicalize_name(each.name) for each in needed(EXTRAS[extra])}
    assert names - PINNED.keys() <= {"setuptools"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_constraints_satisfy_extra_requirements(extra):
    requirements = [Requirement(text) for text in EXTRAS[extra]]
    for each in requirements:
        if each.name != "setuptools":
            assert each.specifier.contains(PINNED[canonicalize_name(each.name)]), each


def test_install_without_extras_brings_what_serve_imports():
    names = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert {"fastapi", "starlette", "uvicorn"} <= names
