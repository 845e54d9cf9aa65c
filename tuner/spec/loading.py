"""Loads what a spec names: trainables by their dotted paths, searchers and schedulers by name.

An extension, a searcher or scheduler, is a module with `SETTINGS`, the class of its spec section,
and `build`. Those that ship are a package's modules without underscore; a dotted name is a module
of the user's.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Generic, TypeVar

from tuner.errors import Fault, UsageError, build_unknown_fault, translate_error
from tuner.spec import retired
from tuner.spec.by_value import ByValue, format_python_argument, is_by_value
from tuner.spec.code import NOT_STANDARD, is_standard
from tuner.spec.command import Command
from tuner.spec.settings import FaultsError, Settings, bad_value, parse

# The validation context in which modules of the user's are imported
IMPORTING = "importing"
_METHODS = ("step", "state_dict", "load_state_dict")
_OF_A_LEARNER = "(config, constants, *, device, rank, world_size)"

S = TypeVar("S", bound=Settings)


def load_trainable(path: str) -> Any:
    """The class or function at `path` ("module:name"), or its Command.

    Runs the module's code. Raises as the import, AttributeError for an unknown name, and
    FaultsError for functions in C, the standard library, and the text of a trainable by value.
    """
    if isinstance(path, ByValue):
        return path.value
    if isinstance(path, Command):
        return path
    if is_by_value(path):
        rule = (
            "was passed by value, by a script or a notebook: pass it again, from Python"
        )
        raise bad_value(f"{rule}, as {format_python_argument(path)}", path)
    module, _, name = path.partition(":")
    if is_standard(module):
        raise bad_value(NOT_STANDARD, path)
    trainable: Any = import_module(module)
    for part in name.split("."):
        trainable = getattr(trainable, part)
    if inspect.isbuiltin(trainable) or inspect.ismethoddescriptor(trainable):
        raise bad_value("must not be a function that is implemented in C", path)
    if is_standard(str(getattr(trainable, "__module__", ""))):
        # Reached through another module
        raise bad_value(NOT_STANDARD, path)
    return trainable


def collect_declarations(package: ModuleType, variable: str) -> dict[str, Any]:
    """The `variable` of every module of `package` without an underscore, by the module's name."""
    names = [
        module.name
        for module in iter_modules(package.__path__)
        if module.name[0] != "_"
    ]
    return {
        name: getattr(import_module(f"{package.__name__}.{name}"), variable)
        for name in names
    }


def import_trainable(path: str) -> Any:
    """As `load_trainable`, but raises UsageError where the import fails."""
    with translate_error(UsageError, f"cannot import {path}"):
        return load_trainable(path)


def is_learner(trainable: Any) -> bool:
    """Whether it is a Learner class or builder; else a class of Ray Tune's or a Tune function."""
    if inspect.isclass(trainable):
        return not is_rays_class(trainable)
    return not can_take(trainable, {}) and _can_build(trainable, world_size=1)


def is_rays_class(trainable: Any) -> bool:
    # Which the module of such a class has imported
    tune: Any = sys.modules.get("ray.tune")
    return (
        inspect.isclass(trainable)
        and tune is not None
        and issubclass(trainable, tune.Trainable)
    )


def find_trainable_fault(trainable: Any) -> Fault | None:
    """Why `trainable` is no Learner, class of Ray's or `def train(config)`; None if it is one."""
    if is_rays_class(trainable):
        return None
    if inspect.isclass(trainable):
        missing = [
            f"{m}()" for m in _METHODS if not callable(getattr(trainable, m, None))
        ]
        rule = f"class {trainable.__name__} is no Learner: it"
        if missing:
            return Fault("trainable", f"{rule} lacks {', '.join(missing)}")
        if not _can_build(trainable, world_size=1):
            signature = str(_read_signature(trainable))
            return Fault("trainable", f"{rule} must take {_OF_A_LEARNER}", signature)
        return None
    if not callable(trainable):
        rule = "must be a Learner class, a function that builds one, or a function of config"
        return Fault("trainable", rule, trainable)
    if is_learner(trainable) or can_take(trainable, {}):
        return None
    rule = f"a function must take (config), or {_OF_A_LEARNER} to build a Learner"
    return Fault("trainable", rule, str(_read_signature(trainable)))


def has_test(trainable: Any) -> bool:
    """Whether `trainable` is a Learner, or what builds one, with a method `test`."""
    return is_learner(trainable) and callable(getattr(trainable, "test", None))


def can_split(trainable: Any) -> bool:
    """Whether `trainable` is a Learner that can be built as one stage of several."""
    return is_learner(trainable) and _can_build(trainable, world_size=2, split=2)


def _can_build(trainable: Callable[..., Any], **size: int) -> bool:
    return can_take(trainable, {}, {}, device=None, rank=0, **size)


def can_take(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> bool:
    """Whether `function` can be called with these arguments."""
    try:
        return bool(inspect.signature(function).bind(*arguments, **keywords))
    except (TypeError, ValueError):
        return False


def _read_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, or None for one that Python does not know."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Registry(Generic[S]):
    """The extensions of one kind.

    kind: the noun. package: of those that ship. key: of wrong names. base: of every SETTINGS.
    unchecked: accepts any settings, for modules that are not imported. also: further names.
    """

    kind: str
    package: str
    key: str
    base: type[S]
    unchecked: type[S]
    also: tuple[str, ...] = ()

    def list_names(self) -> list[str]:
        """The names of the extensions that ship, sorted."""
        # By the package's name: the spec stands below `tuner.search` and cannot import it, and
        # must not load every searcher to check one
        package = find_spec(self.package)
        assert package is not None
        modules = iter_modules(package.submodule_search_locations)
        return sorted(
            module.name for module in modules if not module.name.startswith("_")
        )

    def load_extension(self, name: str) -> ModuleType:
        """The module called `name`, imported. Raises FaultsError where it is none or broken."""
        if not _is_dotted(name):
            if name not in (names := self.list_names()):
                raise FaultsError(
                    build_unknown_fault(self.key, self.kind, name, [*names, *self.also])
                )
            return import_module(f"{self.package}.{name}")
        if is_standard(name):
            raise FaultsError(Fault(self.key, NOT_STANDARD, name))
        try:
            module = import_module(name)
        except Exception as error:  # any error of the user's module
            reason = f"{type(error).__name__}: {error}"
            raise FaultsError(
                Fault(self.key, f"cannot be imported ({reason})", name)
            ) from None
        settings = getattr(module, "SETTINGS", None)
        is_settings = isinstance(settings, type) and issubclass(settings, self.base)
        if not is_settings or not callable(getattr(module, "build", None)):
            rule = f"must be a module with SETTINGS, a {self.base.__name__}, and a function build"
            raise FaultsError(Fault(self.key, rule, name))
        return module

    def load_settings(self, name: str) -> type[S]:
        """The settings class of the extension called `name`. Raises as `extension` does."""
        settings: type[S] = self.load_extension(name).SETTINGS
        return settings

    def load_shipped_settings(self) -> dict[str, type[S]]:
        return {name: self.load_settings(name) for name in self.list_names()}

    def read(self, raw: Mapping[str, Any], name: str, context: object) -> S:
        """The settings in `raw`; imports a user's module in the context IMPORTING alone.

        In the context RECORDED retired extensions keep their settings, unchecked.
        """
        is_retired = context == retired.RECORDED and name in retired.SCHEDULERS
        imports = not is_retired and (context == IMPORTING or not _is_dotted(name))
        settings, faults = parse(
            self.load_settings(name) if imports else self.unchecked, raw
        )
        if settings is None:
            raise FaultsError(*faults)
        return settings


def _is_dotted(name: str) -> bool:
    return "." in name and all(part.isidentifier() for part in name.split("."))
