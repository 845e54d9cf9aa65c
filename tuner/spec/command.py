"""A command as a trainable: a list of arguments, with `{name}` for a hyperparameter's value."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tuner.errors import Fault, unknown
from tuner.spec.plain_values import value_at
from tuner.spec.settings import FaultsError, bad_value

SEED = "seed"  # may be a placeholder of any command: the trial's seed
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PLAIN = re.compile(r"[\w@%+=:,./{}-]+")
_RULE = "must be a command as text or as a list of arguments, as in {command: 'python train.py'}"


class Command(str):
    """The text `$ python train.py --lr {lr}`, and the `arguments` that it stands for."""

    arguments: tuple[str, ...]

    def __new__(cls, arguments: Collection[str]) -> Command:
        quoted = (a if _PLAIN.fullmatch(a) else shlex.quote(a) for a in arguments)
        self = super().__new__(cls, f"$ {' '.join(quoted)}")
        self.arguments = tuple(arguments)
        return self

    def __reduce__(self) -> Any:
        return Command, (self.arguments,)

    @classmethod
    def read(cls, raw: object) -> Command:
        """The command that a spec's `trainable` holds. Raises FaultsError for anything else."""
        command = raw.get("command") if isinstance(raw, Mapping) and len(raw) == 1 else None
        try:
            arguments = shlex.split(command) if isinstance(command, str) else command
        except ValueError as error:  # a quote that does not end
            raise FaultsError(Fault("command", f"cannot be split: {error}", command)) from error
        if not isinstance(arguments, list | tuple) or not arguments or not arguments[0]:
            raise bad_value(_RULE, raw)
        if not all(isinstance(each, str | int | float) for each in arguments):
            raise FaultsError(Fault("command", "must hold text and numbers alone", command))
        return cls([*map(str, arguments)])

    @property
    def plain(self) -> dict[str, list[str]]:
        return {"command": [*self.arguments]}

    @property
    def names(self) -> list[str]:
        """The placeholders, each once. `{{` and `}}` are braces, and none."""
        matches = (match for text in self.arguments for match in _BRACES.finditer(text))
        return list(dict.fromkeys(m[1] for m in matches if m[1] is not None))

    def faults(self, names: Collection[str]) -> Iterator[Fault]:
        """What is wrong with the placeholders. names: of the hyperparameters."""
        choices = sorted({*names, SEED})
        for name in self.names:
            if name not in choices:
                yield unknown("command", "hyperparameter", name, choices)
        if any(m[0] in "{}" for text in self.arguments for m in _BRACES.finditer(text)):
            rule = "has a brace without its partner: write {{ or }} for a brace"
            yield Fault("command", rule, str(self))

    def filled(self, config: Mapping[str, Any], seed: int) -> list[str]:
        """The arguments of one trial. Raises ValueError for a name that its config lacks."""

        def value(match: re.Match[str]) -> str:
            return match[0][0] if match[1] is None else _text(value_at(config, match[1]))

        config = {SEED: seed, **config}
        try:
            return [_BRACES.sub(value, text) for text in self.arguments]
        except KeyError as error:
            message = f"this trial's config has no {error}, which the command names"
            raise ValueError(message) from None

    def located(self, directory: Path) -> Command:
        """The command with absolute paths of its program and script (the first .py or file)."""
        program, *others = self.arguments
        files = [i for i, text in enumerate(others) if (directory / text).is_file()]
        scripts = [i for i in files if others[i].endswith(".py")] or files
        for i in files:
            if i <= scripts[0]:
                others[i] = str(directory / others[i])
        return Command([str(directory / program) if "/" in program else program, *others])

    @property
    def script(self) -> str | None:
        arguments = [text for text in self.arguments if text != "-u"]
        is_python = re.fullmatch(r"python[\d.]*", arguments[0]) or arguments[0] == sys.executable
        runs_file = is_python and len(arguments) > 1 and arguments[1].endswith(".py")
        return arguments[1] if runs_file else None

    @property
    def default_name(self) -> str:
        """The default name of its experiment: that of the first .py file, or of the program."""
        scripts = [text for text in self.arguments if text.endswith(".py")]
        stem = Path((scripts or self.arguments)[0]).stem
        return re.sub(r"[^\w-]+|^[^A-Za-z0-9]+", "-", stem, flags=re.ASCII).strip("-_") or "command"


def read_command(trainable: object) -> Command | None:
    if isinstance(trainable, Command):
        return trainable
    try:
        return Command.read(trainable)
    except FaultsError:  # such a spec is refused
        return None


def _text(value: Any) -> str:
    """Lists and mappings as JSON, all else as Python shows it."""
    return json.dumps(value) if isinstance(value, Mapping | list | tuple) else str(value)
