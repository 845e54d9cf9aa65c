"""Finds an experiment by what the user calls it, and reads it as a spec's plain values.

EXPERIMENT is a name in the working directory's experiments/, else one of those that ship; or
`module:function`; or a .py, .yaml or .json file.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from tuner.errors import SpecError, TunerError, UsageError, did_you_mean
from tuner.settings_base import faults_of
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.text import read_mapping

_FUNCTION = "experiment"  # what a module's function is called: def experiment() -> ExperimentSpec
SHIPPED = Path(__file__).resolve().parents[2] / "experiments"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What was found: the spec's plain values, a name for it, and where it comes from."""

    raw: dict[str, Any]
    name: str
    source: str


def load_experiment(text: str, directory: Path | None = None) -> Experiment:
    """The experiment that `text` names, seen from `directory` (the working directory).

    Modules are looked for there, and beside a file; a Python module that is the experiment is
    imported. Raises UsageError where there is none, and SpecError where what it holds is no spec.
    """
    directory = directory or Path.cwd()
    path = directory / text
    search_modules_in(directory)
    if path.suffix in (".yaml", ".yml", ".json"):
        search_modules_in(path.parent)
        return _from_text(path)
    if path.suffix == ".py":
        if not path.is_file():
            raise UsageError(f"no file {path}")
        search_modules_in(path.parent)
        return _from_module(_import_file(path.stem, path), _FUNCTION, path.stem)
    if ":" in text:
        module, _, function = text.partition(":")
        return _from_module(_import(module, text), function, module.rpartition(".")[2])
    for folder in (directory / "experiments", SHIPPED):
        file = folder / f"{text}.py"
        if text.isidentifier() and file.is_file():
            return _from_module(_import_file(f"experiments.{text}", file), _FUNCTION, text)
    raise UsageError(_not_found(text, directory))


def names(directory: Path) -> list[str]:
    """The experiments that can be called by name from `directory`."""
    folders = (directory / "experiments", SHIPPED)
    return sorted({f.stem for folder in folders for f in folder.glob("[!_]*.py")})


def _not_found(text: str, directory: Path) -> str:
    known = names(directory)
    return (
        f"no experiment {text!r}{did_you_mean(text, known)}; available: {', '.join(known)}; "
        "or give module:function, or a .py, .yaml or .json file"
    )


def search_modules_in(directory: Path) -> None:
    """Let Python find the user's modules in `directory`; workers are told, too."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _import(module: str, text: str) -> ModuleType:
    with _telling(text, ""):
        return importlib.import_module(module)


def _import_file(name: str, path: Path) -> ModuleType:
    """The module in the file at `path`, under `name`, whatever else of that name could be found."""
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    with _telling(str(path), str(path)):
        specification.loader.exec_module(module)
    return module


@contextmanager
def _telling(source: str, file: str) -> Iterator[None]:
    """Turn whatever the user's code raises into one message, with the line of `file` if it has one.

    Raises SpecError for an ExperimentSpec that cannot be built, else UsageError.
    """
    try:
        yield
    except TunerError:
        raise
    except ValidationError as error:
        raise SpecError(faults_of(error, ExperimentSpec), source) from error
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == file]
        if isinstance(error, SyntaxError) and error.filename == file:
            lines.append(error.lineno)
        where = f"{source}, line {lines[-1]}" if lines else source
        raise UsageError(f"{where}: {type(error).__name__}: {error}") from error


def _from_text(path: Path) -> Experiment:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: it is not UTF-8") from error
    raw = read_mapping(text, str(path))
    return Experiment(raw, str(raw.get("name", path.stem)), str(path))


def _from_module(module: ModuleType, function: str, name: str) -> Experiment:
    source = str(module.__file__ or module.__name__)
    make = getattr(module, function, None)
    if not callable(make):
        raise UsageError(f"{source} has no function {function}() that returns an ExperimentSpec")
    with _telling(source, source):
        spec = make()
    if isinstance(spec, ExperimentSpec):
        if "name" in spec.model_fields_set:
            name = spec.name
        return Experiment(spec.model_dump(mode="json", exclude_unset=True), name, source)
    if isinstance(spec, Mapping):
        return Experiment(dict(spec), str(spec.get("name", name)), source)
    kind = type(spec).__name__
    raise UsageError(f"{source}: {function}() must return an ExperimentSpec, got {kind}")
