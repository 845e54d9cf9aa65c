"""What installed packages add to tuner: trackers, notifiers, figures and commands.

A package names them as entry points of the groups `tuner.trackers` and so on. They are listed
without an import; one is imported when it is used by its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from tuner.errors import UsageError, build_unknown_fault, translate_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_MOST_BYTES = 2**16  # of a package's entry points


class Plugins:
    """The plugins of one kind, whose entry points are of the group `tuner.KINDs`.

    built_in: what ships, by name: itself, or its "module:name".
    """

    def __init__(self, kind: str, built_in: Mapping[str, Any]) -> None:
        self.kind = kind
        self.built_in = built_in

    @cached_property
    def entry_points(self) -> dict[str, list[EntryPoint]]:
        """Those of packages, by name. A name that ships is left out, with a warning."""
        by_name: dict[str, list[EntryPoint]] = {}
        if _has_any():
            from importlib.metadata import entry_points

            for entry in entry_points(group=f"tuner.{self.kind}s"):
                by_name.setdefault(entry.name, []).append(entry)
        for name in by_name.keys() & self.built_in.keys():
            import logging  # here, since `tuner --help` does without

            logging.getLogger(__name__).warning(
                "%s is ignored: tuner has a %s of that name",
                _format_entries(by_name.pop(name)),
                self.kind,
            )
        return by_name

    def list_names(self) -> list[str]:
        return sorted([*self.built_in, *self.entry_points])

    def describe(self, name: str) -> str:
        """The name, with its package if it is of one."""
        return (
            name if name in self.built_in else _format_entries(self.entry_points[name])
        )

    def load(self, name: str) -> Any:
        """What is called `name`. Raises UsageError for an unknown name and a broken package."""
        if name in self.built_in:
            built_in = self.built_in[name]
            return resolve_name(built_in) if isinstance(built_in, str) else built_in
        if name not in self.entry_points:
            raise UsageError(
                str(build_unknown_fault("", self.kind, name, self.list_names()))
            )
        entry, *others = self.entry_points[name]
        text = f"{self.kind} {self.describe(name)}"
        if others:
            raise UsageError(
                f"{text} is ambiguous: uninstall all but one of these packages"
            )
        with translate_error(UsageError, f"{text} cannot be imported"):
            return entry.load()


def _has_any() -> bool:
    """Whether a package has entry points for tuner.

    `tuner --help` lists them. Among 245 packages this takes 1 ms, `importlib.metadata` 25 ms.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # no folder, or one that may not be read
            continue
        for name in names:
            if name.endswith("-info"):
                try:
                    file = os.open(
                        f"{folder or '.'}/{name}/entry_points.txt", os.O_RDONLY
                    )
                    text = os.read(file, _MOST_BYTES)
                    os.close(file)
                except OSError:  # most packages have none
                    continue
                if b"[tuner." in text:
                    return True
    return False


def _format_entries(entries: list[EntryPoint]) -> str:
    packages = sorted(f"{e.dist.name} {e.dist.version}" for e in entries if e.dist)
    return f"{entries[0].name} of {' and '.join(packages)}"


TRACKERS = Plugins(
    "tracker",
    {
        "mlflow": "tuner.reporting.trackers:Mlflow",
        "wandb": "tuner.reporting.trackers:Wandb",
    },
)
_POST = "tuner.reporting.notifier:build_post_delivery"
# By the scheme of a URL
NOTIFIERS = Plugins("notifier", {"http": _POST, "https": _POST})
FIGURES = Plugins("figure", {})
