"""Extensions by name: searchers and schedulers.

An extension is a module with `SETTINGS`, the class of its spec section, and `build`. Those that
ship are a package's modules without underscore; a dotted name is a module of the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Generic, TypeVar

from tuner.errors import Fault, unknown
from tuner.spec.code import NOT_STANDARD, is_standard
from tuner.spec.settings import FaultsError, Settings, parse

IMPORTING = "importing"  # the validation context in which modules of the user's are imported

S = TypeVar("S", bound=Settings)


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

    def names(self) -> list[str]:
        """The names of the extensions that ship, sorted."""
        # By the package's name: the spec stands below `tuner.search` and cannot import it, and
        # must not load every searcher to check one
        package = find_spec(self.package)
        assert package is not None
        modules = iter_modules(package.submodule_search_locations)
        return sorted(module.name for module in modules if not module.name.startswith("_"))

    def extension(self, name: str) -> ModuleType:
        """The module called `name`, imported. Raises FaultsError where it is none or broken."""
        if not _is_dotted(name):
            if name not in (names := self.names()):
                raise FaultsError(unknown(self.key, self.kind, name, [*names, *self.also]))
            return import_module(f"{self.package}.{name}")
        if is_standard(name):
            raise FaultsError(Fault(self.key, NOT_STANDARD, name))
        try:
            module = import_module(name)
        except Exception as error:  # whatever the user's module raises
            reason = f"{type(error).__name__}: {error}"
            raise FaultsError(Fault(self.key, f"cannot be imported ({reason})", name)) from None
        settings = getattr(module, "SETTINGS", None)
        is_settings = isinstance(settings, type) and issubclass(settings, self.base)
        if not is_settings or not callable(getattr(module, "build", None)):
            rule = f"must be a module with SETTINGS, a {self.base.__name__}, and a function build"
            raise FaultsError(Fault(self.key, rule, name))
        return module

    def settings(self, name: str) -> type[S]:
        """The settings class of the extension called `name`. Raises as `extension` does."""
        settings: type[S] = self.extension(name).SETTINGS
        return settings

    def shipped(self) -> dict[str, type[S]]:
        """The settings class of each extension that ships, by its name."""
        return {name: self.settings(name) for name in self.names()}

    def read(self, raw: Mapping[str, Any], name: str, context: object) -> S:
        """The settings in `raw` of the extension `name`. Raises FaultsError with every fault.

        User modules are imported in the context IMPORTING alone: reading a folder runs no code.
        """
        imports = context == IMPORTING or not _is_dotted(name)
        settings, faults = parse(self.settings(name) if imports else self.unchecked, raw)
        if settings is None:
            raise FaultsError(*faults)
        return settings


def _is_dotted(name: str) -> bool:
    return "." in name and all(part.isidentifier() for part in name.split("."))
