"""The reference of the spec, as Markdown that reads well in a terminal, too: docs/spec.md is this.

Keys, values, defaults and meanings come from the settings models, and the text about a trainable
from the docstrings of `Learner`; what is written here is what no single key says.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from tuner.errors import UsageError, did_you_mean
from tuner.reporting.reference_text import (
    CONDITIONAL,
    CONSTANT,
    FUNCTIONS,
    HEAD,
    SCHEDULER,
    SEARCH,
    SECTIONS_FOLLOW,
    TRAINABLE,
    TRAINING,
)
from tuner.settings import MAX_COUNT, Settings
from tuner.spec.declaration import default_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schedulers import SchedulerSettings
from tuner.spec.schema import SECTIONS, schedulers, schema_of, strategies
from tuner.spec.space.parsing import CALLS
from tuner.spec.strategies import SearchSettings
from tuner.trial.learner import Learner, LearnerFactory

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the reference, under the `key` by which it is asked for.

    text: Markdown that stands before the entries. entries: (key, what is said of it).
    """

    key: str
    title: str
    text: str
    entries: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        level = "#" * (2 + self.key.count("."))
        items = "\n".join(text for _, text in self.entries)
        return "\n\n".join(filter(None, [f"{level} {self.title}", _paragraphs(self.text), items]))


def reference() -> str:
    """The whole reference, without a newline at the end."""
    return "\n\n".join([_paragraphs(HEAD), *map(str, _sections())])


def part(key: str) -> str:
    """The section called `key` with those below it, or what is said of one key.

    Raises UsageError, with the nearest one that there is, for another key.
    """
    sections = list(_sections())
    found = [str(one) for one in sections if one.key == key or one.key.startswith(f"{key}.")]
    if found:
        return "\n\n".join(found)
    texts = [
        f"{section.title}\n{text}"
        for section in sections
        for name, text in section.entries
        if key in (name, name.rpartition(".")[2])
    ]
    if texts:
        return "\n\n".join(texts)
    names = {one.key for one in sections} | {n for one in sections for n, _ in one.entries}
    names |= {name.rpartition(".")[2] for name in names}
    known = ", ".join(dict.fromkeys(one.key for one in sections))
    raise UsageError(f"no key {key!r}{did_you_mean(key, names)}; sections: {known}")


def _sections() -> Iterator[Section]:
    apart = {"training", "search", "scheduler", *SECTIONS}
    top = tuple(one for one in _entries("", ExperimentSpec) if one[0] not in apart)
    yield Section("spec", "The keys of a spec", SECTIONS_FOLLOW, top)
    yield Section("trainable", "What a trainable is given", _trainable())
    yield from _training()
    shared = tuple(_entries("search", SearchSettings, usual={"strategy": "random"}))
    yield Section("search", "search: whatever the strategy", SEARCH, shared)
    yield Section("search.space", "search.space: the domains", CONSTANT, tuple(_domains()))
    yield Section("search.conditional", "Conditional spaces", CONDITIONAL)
    for name, model in strategies().items():
        yield _settings("search", name, model)
    usual = {"name": "asha, and with bayesopt forecast"}
    shared = tuple(_entries("scheduler", SchedulerSettings, usual=usual))
    yield Section("scheduler", "scheduler: whichever it is", SCHEDULER, shared)
    for name, model in schedulers().items():
        yield _settings("scheduler", name, model)
    for name, model in SECTIONS.items():
        yield Section(name, name, schema_of(model)["description"], tuple(_entries(name, model)))


def _settings(section: str, name: str, model: type[Settings]) -> Section:
    """The settings that an extension that ships, a strategy or a scheduler, has of its own."""
    shared = {"strategy", "space", "forbid", "name", "max_t"}
    entries = tuple(_entries(section, model, besides=shared))
    return Section(
        f"{section}.{name}", f"{section}, with {name}", schema_of(model)["description"], entries
    )


def _entries(
    prefix: str,
    model: type[Settings],
    *,
    besides: Collection[str] = (),
    usual: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, str]]:
    """(key, what is said of it) of each field. usual: what stands for a field that is left out."""
    schema = schema_of(model)
    required = {*schema.get("required", ())} - {*(usual or {})}
    for name, found in schema["properties"].items():
        key = f"{prefix}.{name}" if prefix else name
        if name not in besides:
            default = {"default": usual[name]} if usual and name in usual else {}
            yield key, _entry(key, {**found, **default}, required=name in required)


def _entry(key: str, schema: Mapping[str, Any], *, required: bool = False, of: str = "") -> str:
    """A line of a list: the key, what it may be, its default, what it means."""
    default = _default(schema["default"]) if "default" in schema else ""
    facts = [_values(schema), "required" if required else default, of]
    meaning = str(schema.get("description", "")).rstrip(".")
    text = f"- `{key}` ({'; '.join(filter(None, facts))})"
    return _wrapped(f"{text}: {meaning}." if meaning else f"{text}.", indent="  ")


def _default(value: object) -> str:
    if value is None:
        return "default none"
    shown = value if isinstance(value, str) else json.dumps(value)
    return f"default `{shown}`"


def _values(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        options = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(map(_values, options)))
    kind = _KINDS.get(str(schema.get("type", "")), "any plain value")
    return " ".join(filter(None, [kind, _bounds(schema)]))


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
}


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {
        "minimum": "from {:g}",
        "exclusiveMinimum": "above {:g}",
        "maximum": "to {:g}",
        "exclusiveMaximum": "below {:g}",
    }
    told = {n: text.format(schema[n]) for n, text in words.items() if _is_told(schema, n)}
    between = " " if "maximum" in told else " and "
    return between.join(told.values()) + " on" * (list(told) == ["minimum"])


def _is_told(schema: Mapping[str, Any], bound: str) -> bool:
    return bound in schema and schema[bound] < MAX_COUNT  # which stands for no bound


def _training() -> Iterator[Section]:
    """The settings of the Learner that ships, then what else its declaration lists."""
    declaration = default_declaration()
    defaults, lists = declaration.reference()
    entries = []
    for name, found in schema_of(declaration.settings or Settings)["properties"].items():
        if name in defaults:
            found = {key: value for key, value in found.items() if key != "default"}
        key = f"training.{name}"
        entries.append((key, _entry(key, found, of=defaults.get(name, ""))))
    yield Section("training", "training: of the image classifier", TRAINING, tuple(entries))
    for key, (title, texts) in lists.items():
        items = (
            (name, _wrapped(f"- `{name}`: {text}", indent="  ")) for name, text in texts.items()
        )
        entries = [(f"training.{key}.{name}", item) for name, item in items]
        yield Section(f"training.{key}", title, "", tuple(entries))


def _domains() -> Iterator[tuple[str, str]]:
    for name, call in CALLS.items():
        given, left_out = call.arguments[: call.required], call.arguments[call.required :]
        arguments = ", ".join([*given, *(f"[{argument}]" for argument in left_out)])
        text = f"- `{name}({arguments})`: {call.meaning}."
        yield f"search.space.{name}", _wrapped(text, indent="  ")


def _trainable() -> str:
    """What the docstrings of a Learner say, as a user needs it."""
    told = [
        ("__init__(self, config, constants, *, device, rank, world_size)", LearnerFactory),
        ("step(self)", Learner.step),
        ("state_dict(self)", Learner.state_dict),
        ("load_state_dict(self, state)", Learner.load_state_dict),
    ]
    lines = []
    for signature, told_by in told:
        source = LearnerFactory.__call__ if told_by is LearnerFactory else told_by
        about = (inspect.getdoc(source) or "").replace("\n\n", " ")
        lines.append(_wrapped(f"- `{signature}`: {' '.join(about.split())}", indent="  "))
    optional = (inspect.getdoc(Learner) or "").partition("\n\n")[2]
    return "\n\n".join([TRAINABLE.strip(), "\n".join(lines), optional, FUNCTIONS.strip()])


def _paragraphs(text: str) -> str:
    """Markdown with its paragraphs wrapped anew; code stays as it is."""
    parts = re.split(r"(^```.*?^```$)", text.strip(), flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.startswith("```") else re.sub(r"[^\n](?:.|\n(?!\n))*", _filled, part)
        for part in parts
    )


def _filled(paragraph: re.Match[str]) -> str:
    text, end = paragraph[0].rstrip("\n"), "\n" * paragraph[0].endswith("\n")
    return (text if text.startswith(("#", "-")) else _wrapped(" ".join(text.split()))) + end


def _wrapped(text: str, *, indent: str = "") -> str:
    return fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
