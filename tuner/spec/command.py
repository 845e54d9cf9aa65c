"""A command as a trainable: a list of arguments, with `{name}` for a hyperparameter's value."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tuner.errors import Fault, build_unknown_fault
from tuner.spec.plain_values import resolve_value
from tuner.spec.settings import FaultsError, bad_value

SEED = "seed"  # may be a placeholder of any command: the trial's seed
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
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
        command = (
            raw.get("command") if isinstance(raw, Mapping) and len(raw) == 1 else None
        )
        try:
            arguments = shlex.split(command) if isinstance(command, str) else command
        except ValueError as error:  # a quote that does not end
            raise FaultsError(
                Fault("command", f"cannot be split: {error}", command)
            ) from error
        if not isinstance(arguments, list | tuple) or not arguments or not arguments[0]:
            raise bad_value(_RULE, raw)
        if not all(isinstance(each, str | int | float) for each in arguments):
            raise FaultsError(
                Fault("command", "must hold text and numbers alone", command)
            )
        return cls([*map(str, arguments)])

    @property
    def plain(self) -> dict[str, list[str]]:
        return {"command": [*self.arguments]}

    @property
    def names(self) -> list[str]:
        """The placeholders, each once. `{{` and `}}` are braces, and none."""
        return _list_placeholders(*self.arguments)

    def find_faults(self, names: Collection[str]) -> Iterator[Fault]:
        """What is wrong with the placeholders. names: of the hyperparameters."""
        choices = sorted({*names, SEED})
        for name in self.names:
            if name not in choices:
                yield build_unknown_fault("command", "hyperparameter", name, choices)
        matches = (m for text in self.arguments for m in _BRACES.finditer(text))
        if any(match[0] in "{}" for match in matches):
            rule = "has a brace without its partner: write {{ or }} for a brace"
            yield Fault("command", rule, str(self))

    def build_arguments(self, config: Mapping[str, Any], seed: int) -> list[str]:
        """The arguments of one trial. Raises ValueError for a name that its config lacks.

        An argument with a list is repeated for each item. One that is a placeholder alone is left
        out for "" and None; for None the option before it is, too.
        """
        config = {SEED: seed, **config}
        arguments: list[str] = []
        for text in self.arguments:
            try:
                values = _render_argument(text, config)
            except KeyError as error:
                message = f"this trial's config has no {error}, which the command names"
                raise ValueError(message) from None
            if values is None and arguments and _OPTION.fullmatch(arguments[-1]):
                arguments.pop()
            arguments += values or []
        return arguments

    def resolve_paths(self, directory: Path) -> Command:
        """The command with absolute paths of the files and folders that its arguments name.

        The program has to be a path; the name of a module, behind -m, stays.
        """
        program, *others = self.arguments
        located = [str(directory / program) if "/" in program else program]
        for text in others:
            is_module = located[-1] == "-m"
            located.append(text if is_module else _resolve_path(text, directory))
        return Command(located)

    @property
    def script(self) -> str | None:
        arguments = [text for text in self.arguments if text != "-u"]
        is_python = (
            re.fullmatch(r"python[\d.]*", arguments[0])
            or arguments[0] == sys.executable
        )
        runs_file = is_python and len(arguments) > 1 and arguments[1].endswith(".py")
        return arguments[1] if runs_file else None

    @property
    def default_name(self) -> str:
        """The default name of its experiment: that of the first .py file, or of the program."""
        scripts = [text for text in self.arguments if text.endswith(".py")]
        stem = Path((scripts or self.arguments)[0]).stem
        return (
            re.sub(r"[^\w-]+|^[^A-Za-z0-9]+", "-", stem, flags=re.ASCII).strip("-_")
            or "command"
        )


def read_command(trainable: object) -> Command | None:
    if isinstance(trainable, Command):
        return trainable
    try:
        return Command.read(trainable)
    except FaultsError:  # such a spec is refused
        return None


def _resolve_path(text: str, directory: Path) -> str:
    """An existing path as an absolute one, also behind `--option=`; other text as it is."""
    option, equals, value = text.rpartition("=")
    if "\0" in text or (equals and not option.startswith("-")):
        return text
    is_path = value and (directory / value).exists()
    return f"{option}{equals}{directory / value}" if is_path else text


def _list_placeholders(*texts: str) -> list[str]:
    matches = (match for text in texts for match in _BRACES.finditer(text))
    return list(dict.fromkeys(m[1] for m in matches if m[1] is not None))


def _render_argument(text: str, config: Mapping[str, Any]) -> list[str] | None:
    """What becomes of one argument. None: a placeholder alone whose value is None.

    Raises KeyError for a name that the config lacks.
    """
    names = _list_placeholders(text)
    values = {name: resolve_value(config, name) for name in names}
    is_alone = len(names) == 1 and text == f"{{{names[0]}}}"
    if is_alone and values[names[0]] is None:
        return None
    if is_alone and values[names[0]] == "":
        return []
    lists = [value for value in values.values() if isinstance(value, list | tuple)]
    is_repeated = len(values) == len(lists) == 1
    count = len(lists[0]) if is_repeated else 1

    def render(match: re.Match[str], item: int) -> str:
        if match[1] is None:
            return match[0][0]
        value = values[match[1]]
        if is_repeated:
            value = value[item]
        return _format_value(value)

    return [_BRACES.sub(partial(render, item=item), text) for item in range(count)]


def _format_value(value: Any) -> str:
    """Lists and mappings as JSON, all else as Python shows it."""
    return (
        json.dumps(value) if isinstance(value, Mapping | list | tuple) else str(value)
    )
