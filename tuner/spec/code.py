"""The code that a spec names: trainable, network, searcher, scheduler; and what reads secrets.

Nothing here imports it. Python's standard library is refused: `logging.config:dictConfig` runs what
its config says.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from tuner.errors import UsageError
from tuner.spec.by_value import is_by_value
from tuner.spec.command import read_command
from tuner.spec.notify import has_variable

IMAGE_CLASSIFIER = "tuner.vision.image_classifier:ImageClassifier"
# The trainable of an experiment whose trials run elsewhere: no code
ELSEWHERE = "elsewhere"
# In earlier folders
CLASSIFIER_BEFORE = "tuner.classifier.image_classifier:ImageClassifier"
DECLARATION = "DECLARATION"  # the name of a Declaration in a module `declaration`
_SHIPPED = "tuner.shipped."
NOT_STANDARD = "must not be of Python's standard library"


@dataclass(frozen=True, slots=True)
class NamedCode:
    """Code that a spec names at `key`. path: of a module or module:name; a command; or a target of
    `notify` that runs a command or sends environment variables.
    """

    key: str
    path: str
    kind: Literal["module", "command", "notify"] = "module"

    @property
    def module(self) -> str:
        return self.path.partition(":")[0]

    @property
    def file(self) -> Path | None:
        return find_module_file(self.module) if self.kind == "module" else None

    @property
    def description(self) -> str:
        """The code and its file, for a question to the user."""
        if self.kind == "module":
            return f"{self.path} ({self.file or 'not found'})"
        return f"{self.kind} {self.path}"

    @property
    def identity(self) -> str:
        """What a user who has run this code has run; a command depends on its directory."""
        if self.kind == "module":
            return f"{self.path} in {self.file and self.file.resolve()}"
        return (
            f"{self.description} in {Path.cwd()}"
            if self.kind == "command"
            else self.description
        )

    @property
    def is_remembered(self) -> bool:
        return os.path.isfile(self._record)  # False for a folder that may not be read

    def remember(self) -> None:
        """Record that this user trusts this code; nothing is kept without a writable home."""
        with suppress(OSError):
            self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._record.touch(mode=0o600)

    @property
    def _record(self) -> Path:
        return (
            _find_state_folder() / "code" / sha256(self.identity.encode()).hexdigest()
        )


def find_code(spec: Mapping[str, Any]) -> list[NamedCode]:
    """The valid code in a spec's plain values that does not ship; the trainable comes first."""
    code = [
        NamedCode(key, path)
        for key, path in _find_paths(spec)
        if path not in (IMAGE_CLASSIFIER, CLASSIFIER_BEFORE)
        and not path.startswith(_SHIPPED)
    ]
    code = [each for each in code if not is_standard(each.module)]
    if command := read_command(spec.get("trainable")):
        code.insert(
            0, NamedCode("trainable", str(command).removeprefix("$ "), "command")
        )
    targets = spec.get("notify")
    for target in targets if isinstance(targets, list | tuple) else [targets]:
        if isinstance(target, str) and has_variable(target):
            code.append(NamedCode("notify", target, "notify"))
    return code


def _find_paths(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    trainable, search, scheduler = map(spec.get, ("trainable", "search", "scheduler"))
    if trainable is None or str(trainable).startswith("tuner."):
        # The classifier, by any path
        # By its path: the spec stands below the Learner that ships and cannot import it
        shipped = import_module(str(find_declaration_module(IMAGE_CLASSIFIER)))
        yield from getattr(shipped, DECLARATION).find_code_paths(spec)
    # Trainables by value, "elsewhere" and commands are not imported
    if isinstance(trainable, str) and not (
        trainable == ELSEWHERE or is_by_value(trainable) or read_command(trainable)
    ):
        module, _, attribute = trainable.rpartition(".")
        yield "trainable", trainable if ":" in trainable else f"{module}:{attribute}"
    strategy = search.get("strategy") if isinstance(search, Mapping) else None
    name = scheduler.get("name") if isinstance(scheduler, Mapping) else scheduler
    for key, path in (("search.strategy", strategy), ("scheduler.name", name)):
        if isinstance(path, str) and "." in path:
            yield key, path


def list_trial_sections(
    spec: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(section, its settings) of each part of a spec's plain values that sets a trial's."""
    search = spec.get("search")
    search = search if isinstance(search, Mapping) else {}
    sections = {"training": spec.get("training"), "search.space": search.get("space")}
    for field in ("configs", "points_to_evaluate"):
        configs = search.get(field)
        numbered = enumerate(configs) if isinstance(configs, list | tuple) else ()
        sections |= {f"search.{field}.{number}": config for number, config in numbered}
    yield from (
        (name, values)
        for name, values in sections.items()
        if isinstance(values, Mapping)
    )


def refuse_elsewhere(trainable: str) -> None:
    if trainable == ELSEWHERE:
        raise UsageError(
            f"the trials of trainable {ELSEWHERE!r} run elsewhere, and ask for their configs: "
            "drive it by tuner.AskTell or by `tuner serve` (docs/ask_tell.md)"
        )


def find_declaration_module(trainable: str) -> str | None:
    """The module of a Learner's package that may declare it, or None for a module at the top."""
    package = trainable.partition(":")[0].rpartition(".")[0]
    return f"{package}.declaration" if package else None


def find_module_file(module: str) -> Path | None:
    """The file that `import module` would run last, or None; packages are not imported."""
    top, *parts = module.split(".")
    try:
        spec = find_spec(top)
        for part in parts:
            if spec is None or spec.submodule_search_locations is None:
                return None
            # By its last name, since a dotted name needs the imported package
            spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    except (ImportError, ValueError):  # ValueError: of __main__, and of an empty name
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def is_standard(module: str) -> bool:
    """Whether `module` is of Python's standard library, and no file of the user's shadows it."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return False
    file = find_module_file(top)
    return file is None or file.is_relative_to(sysconfig.get_path("stdlib"))


def _find_state_folder() -> Path:
    """The folder for state that outlives a process (XDG_STATE_HOME)."""
    return (
        Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
        / "tuner"
    )
