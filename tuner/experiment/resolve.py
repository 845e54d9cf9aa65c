"""From EXPERIMENT and overrides to the spec that runs.

EXPERIMENT: a name in the working directory's experiments/, else one that ships; `module:function`;
a .py, .yaml or .json file, also a recorded experiment.json; or images, `folder:PATH`.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from tuner.errors import (
    SpecError,
    TunerError,
    UsageError,
    suggest_similar,
    translate_error,
)
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.storage import find_free_name
from tuner.spec.code import NamedCode, find_code
from tuner.spec.command import Command
from tuner.spec.declaration import load_default_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.settings import FaultsError, convert_errors, parse
from tuner.spec.text import (
    COMMAND_LINE,
    LONGEST,
    assign_values,
    parse_assignments,
    read_mapping,
)
from tuner.spec.validation import add_default_config, settle_spec
from tuner.wording import find_program

_FUNCTION = "experiment"  # of a module: def experiment() -> ExperimentSpec
_SHIPPED = "tuner.shipped.experiments"
_SETTLED = (
    ("search", "order"),
    ("search", "points_to_evaluate"),
    ("scheduler", "grace_period", "dealt_at"),
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as written: plain values, name, source.

    code: what a recorded one names. is_recorded: the values are those of an experiment.json.
    title: the source, for faults.
    """

    raw: dict[str, Any]
    name: str
    source: str
    code: tuple[NamedCode, ...] = ()
    is_recorded: bool = False
    title: str = ""


def resolve(
    experiment: str | None,
    assignments: Sequence[str] = (),
    *,
    command: str | None = None,
    admit: Callable[[Sequence[NamedCode], Path], object] = lambda code, folder: None,
) -> Experiment:
    """EXPERIMENT with all that a command line changes, not yet validated.

    command: replaces the trainable, and EXPERIMENT may be None. assignments: KEY=VALUE. admit:
    called with the code that a recorded experiment names, and its folder, before it is imported.
    Without an assigned name it gets the next free one. Raises as `load_experiment`,
    `parse_assignments` and `assign_values`.
    """
    values = parse_assignments(assignments)
    if experiment is None:
        loaded = _load_command(command or "")
    else:
        loaded = load_experiment(experiment, set_to=values)
    trained = {"trainable": {"command": command}} if command else {}
    raw = assign_values({"name": loaded.name, **loaded.raw, **trained}, values)
    if code := [each for each in loaded.code if each in find_code(raw)]:
        admit(code, Path(loaded.source).parent)
    if loaded.is_recorded:  # only now, since it imports the trainable
        used = {key: raw[key] for key in ("trainable",) if key in raw}
        raw = assign_values(
            {**_drop_derived({**loaded.raw, **used}), **trained}, values
        )
    name = raw["name"]
    storage = raw.get("storage")
    if (
        "name" not in dict(values)
        and isinstance(name, str)
        and isinstance(storage, str | None)
    ):
        raw["name"] = find_free_name(name, storage)
    title = loaded.source
    if values and title != COMMAND_LINE:
        title = f"{title} with the arguments of the command line"
    return replace(loaded, raw=raw, title=title)


def load_experiment(
    text: str, directory: Path | None = None, *, set_to: Iterable[tuple[str, Any]] = ()
) -> Experiment:
    """The experiment that `text` names, seen from `directory` (None: the working directory).

    set_to: (dotted path, value) of keys that the user sets. A Python module is imported. Raises
    UsageError if there is none, SpecError if it is no spec, DataError for missing images.
    """
    directory = directory or Path.cwd()
    path = directory / text
    add_module_folder(directory)
    if path.suffix in (".yaml", ".yml", ".json", ".py") and not path.exists():
        raise UsageError(f"no file {path}")
    if path.suffix in (".yaml", ".yml", ".json"):
        add_module_folder(path.parent)
        return _load_document(path)
    if path.suffix == ".py":
        add_module_folder(path.parent)
        return _load_module(_import_file(path.stem, path), path.stem)
    if text.partition(":")[0] in load_default_declaration().schemes:
        values = dict(set_to)
        training, space = (
            {
                path.removeprefix(at): v
                for path, v in values.items()
                if path.startswith(at)
            }
            for at in ("training.", "search.space.")
        )
        raw = load_default_declaration().default_experiment(
            text,
            directory,
            training,
            space,
            budget_s=values.get("time_budget_s"),
            metric=values.get("objective.metric"),
        )
        return Experiment(raw, str(raw["name"]), str(raw["training"]["dataset"]))
    if ":" in text:
        module, _, function = text.partition(":")
        file = directory / module
        if file.suffix == ".py" and file.is_file():
            add_module_folder(file.parent)
            return _load_module(_import_file(file.stem, file), file.stem, function)
        return _load_module(_import(module, text), module.rpartition(".")[2], function)
    in_directory = directory / "experiments" / f"{text}.py"
    if text.isidentifier() and in_directory.is_file():
        return _load_module(_import_file(f"experiments.{text}", in_directory), text)
    if text in _list_shipped():
        return _load_module(_import(f"{_SHIPPED}.{text}", text), text)
    if path.is_dir():
        raise UsageError(f"{text!r} is a folder: for images in it write folder:{text}")
    available = list_experiment_names(directory)
    hint = suggest_similar(text, available)
    raise UsageError(
        f"no experiment {text!r}{hint}; available: {', '.join(available)}; "
        "or give module:function, a .py, .yaml or .json file, or images: folder:PATH"
    )


def list_experiment_names(directory: Path) -> list[str]:
    """The experiments that can be called by name from `directory`, sorted."""
    files = (directory / "experiments").glob("[!_]*.py")
    return sorted({*(file.stem for file in files), *_list_shipped()})


def describe(directory: Path) -> dict[str, str]:
    """The experiments that can be called by name, and the first line of each one's docstring.

    A file that does not parse has "".
    """
    folders = [
        directory / "experiments",
        *map(Path, importlib.import_module(_SHIPPED).__path__),
    ]
    described = {}
    for name in list_experiment_names(directory):
        path = next(
            path for folder in folders if (path := folder / f"{name}.py").is_file()
        )
        try:
            docstring = ast.get_docstring(ast.parse(path.read_bytes())) or ""
        except (SyntaxError, ValueError):
            docstring = ""
        described[name] = docstring.partition("\n")[0]
    return described


def add_module_folder(directory: Path) -> None:
    """Let Python find the user's modules in `directory`; workers get the same search path."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _list_shipped() -> list[str]:
    folders = importlib.import_module(_SHIPPED).__path__
    return [module.name for module in pkgutil.iter_modules(folders)]


def _import(module: str, source: str) -> ModuleType:
    with _translate_errors(source):
        return importlib.import_module(module)


def _import_file(name: str, path: Path) -> ModuleType:
    """The module in the file at `path`, under `name`, even if that name could mean another one."""
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    with _translate_errors(str(path)):
        specification.loader.exec_module(module)
    return module


@contextmanager
def _translate_errors(source: str) -> Iterator[None]:
    """Raise what user code raises as UsageError with the line, or SpecError for a bad spec.

    The code sees no command line arguments.
    """
    arguments = sys.argv
    sys.argv = [source]
    try:
        yield
    except TunerError:
        raise
    except ValidationError as error:
        raise SpecError(convert_errors(error, ExperimentSpec), source) from error
    except (Exception, SystemExit) as error:
        lines = [
            f.lineno for f in extract_tb(error.__traceback__) if f.filename == source
        ]
        if isinstance(error, SyntaxError) and error.filename == source:
            lines.append(error.lineno)
        where = f"{source}, line {lines[-1]}" if lines else source
        raise UsageError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.argv = arguments


def _load_document(path: Path) -> Experiment:
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot read {path}: it is not a plain file")
    with (
        translate_error(UsageError, f"cannot read {path}", of=OSError),
        translate_error(UsageError, f"{path} is not UTF-8", of=UnicodeDecodeError),
        path.open(encoding="utf-8") as file,
    ):
        text = file.read(LONGEST + 1)  # which is refused for its length
    raw = read_mapping(text, str(path))
    if path.name == EXPERIMENT and isinstance(raw.get("spec"), dict):
        # To run again: without its storage, under its folder's name
        spec = {k: v for k, v in raw["spec"].items() if k not in ("storage", "name")}
        raw = {"name": path.resolve().parent.name, **spec}
        return Experiment(
            raw, raw["name"], str(path), tuple(find_code(raw)), is_recorded=True
        )
    return Experiment(raw, str(raw.get("name", path.stem)), str(path))


def _drop_derived(spec: dict[str, Any]) -> dict[str, Any]:
    """A recorded spec without values that `validate` derived from its size.

    Imports its trainable; of one that cannot be imported, which `validate` refuses, all are kept.
    """
    for section, *names in _SETTLED:
        settings = spec.get(section)
        if isinstance(settings, dict) and settings.get(names[0]) is not None:
            shorter = {
                **spec,
                section: {k: v for k, v in settings.items() if k not in names},
            }
            parsed, _ = parse(ExperimentSpec, shorter)
            if parsed is None:
                continue
            try:
                derived = getattr(settle_spec(add_default_config(parsed)), section)
            except Exception:  # any error of the user's module
                return spec
            again = derived.model_dump(mode="json")
            if all(
                again.get(name) == settings[name] for name in names if name in settings
            ):
                spec = shorter
    return spec


def _load_command(command: str) -> Experiment:
    """A search that is described by the command line alone; modules are looked for here."""
    add_module_folder(Path.cwd())
    try:
        name = Command.read({"command": command}).default_name
    except FaultsError as error:
        raise SpecError(
            [fault.add_prefix("trainable") for fault in error.faults], "--command"
        ) from None
    return Experiment({}, name, COMMAND_LINE)


def _load_module(
    module: ModuleType, name: str, function: str = _FUNCTION
) -> Experiment:
    source = str(module.__file__ or module.__name__)
    make = getattr(module, function, None)
    if not callable(make):
        raise UsageError(
            f"{source} has no function {function}() that returns an ExperimentSpec; "
            f"a script is searched by: {find_program()} run --command 'python SCRIPT --lr {{lr}}'"
        )
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise UsageError(
            f"{source}: {function}() must need no arguments to return an ExperimentSpec ({error}); "
            "a trainable is named in a spec, as `trainable`"
        ) from error
    except ValueError:  # a function that is implemented in C
        pass
    with _translate_errors(source):
        spec = make()
    if isinstance(spec, ExperimentSpec):
        if "name" in spec.model_fields_set:
            name = spec.name
        return Experiment(spec.dump_values(exclude_unset=True), name, source)
    if isinstance(spec, Mapping):
        return Experiment(dict(spec), str(spec.get("name", name)), source)
    kind = type(spec).__name__
    raise UsageError(
        f"{source}: {function}() must return an ExperimentSpec, got {kind}"
    )
